"""Forms that must not stand in a skill: what a client follows, runs, expands or cannot read."""

from skillwright.bank.lint.rules import Rule, Severity, any_of

_DOMAINS = (
    r"(?:com|net|org|io|ai|dev|app|co|ru|cn|xyz|info|biz|sh|me|top|site|online|zip|tk|ly|gg|de|uk)"
)

LINK = Rule(
    "link",
    any_of(
        r"\b[a-z][a-z0-9+.-]{1,20}://\S*",
        r"\bhxxps?\b\S*",
        r"\bwww\d?\.\S+",
        r"\b(?:mailto|javascript|vbscript|data|tel|file)\s*:(?=[\w/+-])\S*",
        rf"\b[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.{_DOMAINS}\b(?:/\S*)?",
        r"\b[a-z0-9-]+\.[a-z]{2,12}/[\w-]",
        rf"\b[\w-]+\s*(?:\[\.\]|\(\.\)|[\[(]dot[\])]|\sdot\s)\s*{_DOMAINS}\b",
        r"\b[\w.+-]+@[\w-]+\.[\w.-]+",
        r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
    ),
    "An agent or a client may follow it, and what is behind it can change.",
    "Say what to do without an address.",
)

SHELL = Rule(
    "shell",
    any_of(
        r"\b(?:curl|wget)\s+[-\w'\"$/~.]\S*",
        r"\brm\s+-\w+",
        r"\bsudo\s+\w+",
        r"\bchmod\s+[+\du]\S*",
        r"\b(?:ba|z|da|k)?sh\s+-\w\b",
        r"\b(?:python\d?|perl|ruby|node|php)\s+-[cer]\b",
        r"\b(?:pip\d?|npm|npx|brew|apt|apt-get|gem|cargo)\s+(?:install|i|exec|-y)\b",
        r"\bnpx\s+\S+",
        r"\bprintenv\b|\b(?:python\d?|perl|ruby|node|php|(?:ba|z)?sh)\s+\S+\.(?:py|pl|rb|js|php|sh)\b",
        r"\$\([^)]*\)",
        r"\s&&\s*\S+",
        r"\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b",
        r";\s*(?:rm|curl|wget|cat|nc|sh|bash|sudo|echo)\b",
        r">>?\s*[/~][\w./]+",
        r"\b(?:eval|exec|execfile|compile|__import__|popen)\s*\(",
        r"\b(?:os\.(?:system|popen|environ)|subprocess\.|shutil\.rmtree|child_process)",
        r"/etc/\w+|/proc/self|/dev/tcp|~/\.\w+|\.ssh/|\.aws/|\.env\b|\bid_rsa\b",
        r"\b(?:powershell|invoke-webrequest|invoke-expression|cmd\.exe|certutil|crontab)\b",
        r"\b(?:nc|ncat|netcat)\s+-\w",
        r"\bbase64\s+(?:-d|--decode)",
        r"\b(?:drop|truncate)\s+table\b|\bdelete\s+from\s+\w+|'\s*or\s+'?1'?\s*=\s*'?1|;\s*--",
        r"\bcat\s+[/~.]\S*",
        r"\bgit\s+(?:push|clone|remote)\b",
        r"`(?:ls|cat|env|echo|printenv|whoami|ps|ssh|scp|docker|kubectl|touch|mv|cp|dd|kill)\b[^`]*`",
        r"\boutput of (?:env|ls|cat|whoami|printenv|set)\b|\benv(?:ironment)? var(?:iable)?s?\b",
        r"\bexecute\b[^.]{0,25}\b(?:scripts?|code|payload|program|attachment|binary)\b",
        r"\b(?:run|launch)\b[^.]{0,20}\b(?:attached|downloaded|hidden|following)\b",
        r"\bdownload\b[^.]{0,40}\b(?:from|scripts?|files?|link|page)\b",
        r"\b[a-z]:\\\w|\b(?:open|use|start)\b[^.]{0,10}\b(?:terminal|shell|console|command line)\b",
        r"\bimport\s+(?:os|sys|subprocess|socket|requests|shutil)\b|\bfetch\s*\(",
        r"\b(?:run|execute|type|enter)\b[^.]{0,30}\b(?:in|into)\s+(?:a|the|your)\s+"
        r"(?:shell|terminal|command line|console)\b",
    ),
    "A client or an agent may run it.",
    "Say what to achieve in the environment's own commands.",
)

CREDENTIAL = Rule(
    "credential",
    any_of(
        r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant)?[-_]?[a-z0-9_-]{16,}",
        r"\bakia[0-9a-z]{12,}",
        r"\bgh[pousr]_[a-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}",
        r"\bxox[abeprs]-[\w-]{8,}|\bhf_[a-z0-9]{16,}|\baiza[\w-]{20,}",
        r"-----\s*begin [a-z ]*(?:key|certificate)",
        r"\b(?:bearer|basic)\s+[a-z0-9._~+/-]{16,}=*",
        r"\beyj[a-z0-9_-]{8,}\.[\w-]+",
        r"\b(?:password|passwd|pwd|api[_ -]?key|secret|access[_ -]?token|token)\s*"
        r"(?:[=:]|\bto\b)\s*"
        r"(?=\S*[\d=:])\S{4,}|\b(?:password|passwd|pwd|api[_ -]?key|secret|token)\s*[=:]\s*\S{4,}",
        r"\bpassword\b[^.]{0,30}\bis\s+(?=\S*\d)\S{5,}",
        r"\b(?:password|passcode|api[_ -]?key|secret|token|pin)\s+is\s+"
        r"(?:['\"]\S+|(?=\S*\d)(?=\S*[a-z])\S{4,}|\d{3,})",
        r"(?<![\d#])\d(?:[ -]?\d){12,18}(?!\d)",
    ),
    "Whoever reads the bank gets it, and it is in every prompt.",
    "Take it out, and have it changed where it is in use.",
)

PERSONAL = Rule(
    "one_case",
    any_of(
        r"#w\d{7}\b",
        r"\b[a-z]+_[a-z]+_\d{4}\b",
        r"\b(?:credit_card|gift_card|paypal)_\d{4,}\b",
        r"\bb0[0-9a-z]{8}\b(?<!\bb0[a-z]{8})",
        r"(?<![\w#])\+?\d{1,3}[ -.]?\(?\d{3}\)?[ -.]\d{3}[ -.]\d{4}\b",
    ),
    "It is one customer's or one product's: it helps in no other task, and may be personal.",
    "Say it for all such cases, with a placeholder such as {order}.",
)

MARKUP = Rule(
    "markup",
    any_of(
        r"\[[^\]]*\]\([^)]*\)",
        r"\[[^\]]+\]\s*:\s*\S",
        r"!\[|\[\[|!`|```|~~~",
        r"^\s*(?:#{1,6}\s|---|===|>\s|\|)",
        r"#{2,}\s*\w",
        r"<!--|-->|<!\w|<\?",
        r"<\s*/?\s*(?:script|iframe|img|svg|object|embed|link|style|form|input|meta|base|video|audio"
        r"|body|html|head|a|b|i|p|div|span|details|template|button|textarea|math|marquee|br|table"
        r"|system|assistant|user|instructions?|think|action|tool\w*|skill\w*|trajector\w+|task\w*"
        r"|function\w*|invoke|antml\w*|important|search|answer|observation)\b[^>]*>?",
        r"</\w+",
        r"<\|[^|]*\|?>?|\[/?inst\]|<<\s*/?sys\s*>>",
        r"\{\{|\}\}|\$\{|\{%|<%|\$arguments\b",
        r"(?:^|\s)@[a-z~./]\S*",
        r"^\s*/[a-z][\w-]*\b",
        r"\[[gtl]\d{2,}\]",
    ),
    "A client may expand or run it, and it can forge a line of the prompt.",
    "Write plain sentences; write a placeholder as {object}.",
)

PLACEHOLDER = Rule(
    "angle_brackets",
    any_of(r"<\s*[a-z][\w -]*>"),
    "Clients take angle brackets for markup, and descriptions of Agent Skills may not have them.",
    "Write a placeholder as {object}.",
    severity=Severity.WARNS,
)

ENCODED = Rule(
    "encoded",
    any_of(
        r"(?<![0-9a-z])[0-9a-f]{24,}(?![0-9a-z])",
        r"(?:\\x[0-9a-f]{2}){3,}|(?:\\u[0-9a-f]{4}){2,}|(?:%[0-9a-f]{2}){3,}",
        r"(?:&#x?[0-9a-f]+;\s*){2,}|&(?:lt|gt|amp|quot);",
        r"\b[01]{8}(?:\s+[01]{8}){2,}\b",
        r"(?:\b[a-z][ .*_-]{1,2}){5,}[a-z]\b",
        r"\b(?:base ?64|rot ?13|atob|unhexlify)\b",
        r"\b(?:decode|decrypt|decipher|unscramble)\b[^.]{0,50}\b(?:follow|obey|run|execute"
        r"|do (?:what|it))\b|\bread[^.]{0,20}\bbackwards\b",
        r"[.-]{2,}(?:[ /][.-]{1,5}){6,}",
    ),
    "It can carry anything past a reader.",
    "Say it in plain words.",
)

FORM: tuple[Rule, ...] = (LINK, SHELL, CREDENTIAL, PERSONAL, MARKUP, PLACEHOLDER, ENCODED)
