"""What a rule of lint is. The rules themselves are in `lint_form` and `lint_conduct`.

Patterns see text in compatibility form (NFKC), without hidden characters, on one line and in lower
case, so that other alphabets, widths and invisible letters do not get a word past them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a finding means for the skill."""

    BLOCKS = "blocks"
    """The skill cannot become active."""
    WARNS = "warns"
    """A person should look at it."""


class Negation(StrEnum):
    """Which negation makes the opposite out of what a pattern finds."""

    NONE = "none"
    JUST_BEFORE = "just_before"
    """``Never skip ...``: the words right before it."""
    OF_THE_CLAUSE = "of_the_clause"
    """``Never cancel anything without confirmation``: the first word of its clause."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that must not be in a skill.

    Attributes:
        name: Names it in findings.
        patterns: Any of them.
        why: What could happen.
        fix: What to do.
        severity: Whether the skill can become active all the same.
        negation: Which negation makes it harmless.
        only_advice: Only the advice to the agent is searched, not what went wrong.
        sees_disguises: Letters written as digits (``1gn0re``) and words joined by hyphens or
            underscores are read as well.
    """

    name: str
    patterns: tuple[re.Pattern[str], ...]
    why: str
    fix: str
    severity: Severity = Severity.BLOCKS
    negation: Negation = Negation.NONE
    only_advice: bool = False
    sees_disguises: bool = False


def any_of(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Compile the patterns of a rule."""
    return tuple(re.compile(pattern) for pattern in patterns)


# Forms that must not be in a skill: what a client follows, runs, expands or cannot read.


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


# Conduct that a skill must not ask for: against the rules, the people or the bank.


_RULES = (
    r"(?:instructions?|rules?|polic(?:y|ies)|guidelines?|guidance|prompts?|restrictions?|safeguards?"
    r"|guard ?rails?|safety|directives?|limitations?)"
)

_CHECKS = (
    r"(?:confirmations?|confirming|verification|verifying|authentication|authenticating|consent"
    r"|approval)"
)

_PEOPLE = (
    r"(?:users?|customers?|operators?|humans?|anyone|anybody|developers?|supervisors?|owners?)"
)

_SECRETS = (
    r"(?:passwords?|passphrase|passcode|cvv|pin (?:code|number)|social security|ssn|api[ _-]?keys?"
    r"|secret keys?|access tokens?|credentials?|private keys?|(?:full |complete )card numbers?"
    r"|card numbers?|security code)"
)

ASKS_FOR_SECRET = Rule(
    "asks_for_secret",
    any_of(
        r"\b(?:ask|request|demand|obtain|collect|get|reveal|send|share|print|include|repeat|tell"
        rf"|give|provide|read out|show|dump|output)\b[^.]{{0,40}}\b{_SECRETS}",
        r"\b(?:reveal|give out|disclose|share|tell|show)\b[^.]{0,25}\b(?:other|another|someone"
        r"|whoever|anyone|anybody)\b[^.]{0,15}\b(?:customers?|users?|orders?|calls|asks)\b",
    ),
    "It makes agents collect or give away secrets.",
    "Take it out; agents are given what they need.",
    negation=Negation.JUST_BEFORE,
)

OVERRIDE = Rule(
    "override",
    any_of(
        r"\b(?:ignore|disregard|forget|override|overrule|bypass|skip|circumvent|break|violate"
        r"|neglect|abandon|evade|disobey|discard|suspend|drop|set aside|pay no attention to"
        r"|stop following"
        rf"|work around|get around|act against)\b[^.]{{0,45}}\b{_RULES}\b",
        rf"\btreat\b[^.]{{0,25}}\b{_RULES}\b[^.]{{0,15}}\b(?:optional|void|suggestions?|advice)\b",
        rf"\b(?:whatever|despite what)\b[^.]{{0,20}}\b{_RULES}\b[^.]{{0,5}}\b(?:says?|demands?)\b",
        rf"\b(?:outrank|overrule|trump)s?\b[^.]{{0,30}}\b(?:{_RULES}|manual)\b",
        r"\bdisobey\b",
        # The same in other languages; agents read them all.
        r"\bignor\w*\b[^.]{0,30}\b(?:instru[ck]\w+|anweisung\w*|regeln?|regole|r[eè]gles|istruzion\w*"
        r"|reglas)\b|игнорир\w*[^.]{0,40}(?:инструкц|указани|правил)"
        r"|(?:忽略|无视|無視)[^。.]{0,12}(?:指示|指令|规则|規則)",
        r"\b(?:do|act)\b[^.]{0,10}\b(?:as|what)\b[^.]{0,15}\b(?:pages?|notes?|reviews?|comments?"
        r"|sellers?|tool results?|it)\b[^.]{0,5}\b(?:tells?|says?|asks?|orders?|demands?)\b",
        rf"\bopposite of\b[^.]{{0,25}}\b{_RULES}\b",
        rf"\b(?:make|grant|allow)\b[^.]{{0,10}}\bexceptions?\b[^.]{{0,15}}\b{_RULES}\b",
        r"\b(?:obey|follow|trust|execute|carry out)\b[^.]{0,30}\b(?:instructions?|commands?|orders?"
        r"|notes?|text|guidance|rules?)\b[^.]{0,40}\b(?:in|on|from|of)\b[^.]{0,20}"
        r"\b(?:observations?|tool (?:results?|outputs?)|pages?|notes?|reviews?|products?|sellers?"
        r"|messages?)\b",
        r"\b(?:obey|follow|trust)\b[^.]{0,20}\b(?:notes?|seller|pages?|review|message)\b",
        r"\b(?:ignore|disregard|forget)\b[^.]{0,15}\b(?:everything|all|anything|what)\b[^.]{0,20}"
        r"\b(?:above|before|previous(?:ly)?|prior|earlier|told|said|taught|learned)\b",
    ),
    "It turns agents against the rules that they are given.",
    "Take it out; say what to do within the rules.",
    negation=Negation.JUST_BEFORE,
    sees_disguises=True,
)

PLAIN_OVERRIDE = Rule(
    "override",
    any_of(
        rf"\b(?:do not|don't|never|no longer|need not|stop)\s+(?:follow|obey|apply|respect|heed)\w*"
        rf"\b[^.]{{0,30}}\b{_RULES}\b",
        rf"\b{_RULES}\b[^.]{{0,25}}\b(?:no longer (?:apply|applies|hold|matter)s?|(?:do|does) not"
        r" (?:apply|matter|count)\b(?!\s+(?:to (?!you)|when|while|if|until|for))"
        r"|(?:is|are|was|were|have been|has been|had been)"
        r" (?:\w+ )?(?:void|cancelled|suspended|revoked|obsolete|lifted|superseded|overridden"
        r"|replaced|withdrawn|outdated|optional|invalid|fake))",
        rf"\b(?:do not|don't|never)\s+(?:bother|care|worry|mind|think)\b[^.]{{0,20}}\b{_RULES}\b",
        r"\byour (?:real|true|actual|new|hidden|secret) (?:goals?|tasks?|purpose|job|role|objective"
        r"|mission|instructions?)\b",
        r"\bas (?:the|your|a) (?:system )?(?:admin\w*|developer|owner|operator|creator)\b",
        r"\b(?:admin\w*|operator|developer|owner|creator) (?:wants?|authori[sz]es?|orders?"
        r"|has approved|requires?|demands?|says?)\b|\b(?:i|we) authori[sz]e\b",
        r"\b(?:regardless of|no matter|despite|irrespective of|notwithstanding)\b[^.]{0,25}\b"
        rf"{_RULES}\b",
        r"\b(?:limits?|safeguards?) (?:is|are) (?:lifted|off|gone|suspended)\b",
        r"\bas your (?:new )?(?:boss|master|owner)\b",
        r"\byou are (?:now|no longer)\b",
        rf"\b(?:even if|even when|although|though)\b[^.]{{0,20}}\b{_RULES}\b[^.]{{0,15}}"
        r"\b(?:forbids?|prohibits?|disallows?|says? no|refuses?)\b",
        rf"\b{_RULES}\b[^.]{{0,15}}\b(?:is|are) (?:only |merely |just )?(?:wrong|suggestions?)\b",
        rf"\b(?:like|as if)\b[^.]{{0,10}}\b{_RULES}\b[^.]{{0,15}}\bnever\b",
        r"\b(?:text|commands?|notes?) [^.]{0,30}\bas (?:orders|commands|instructions)\b",
        r"\b(?:higher|highest|more|top) (?:priority|authority) (?:than|over)\b",
        r"\bfrom now on\b",
        r"\bnew (?:system )?(?:instructions?|prompt|persona|directives?)\b",
        r"\bsystem (?:prompt|message|override|note|instructions?|directive|notice|update)\b",
        r"\b(?:developer|god|sudo|admin|debug|maintenance|jailbreak|root|dan) mode\b",
        r"\bjailbr[eo]ak",
        r"\b(?:act|behave|respond|answer|speak) as (?:if you (?:were|are) )?(?:an? |the )?"
        r"(?:admin\w*|root|system|developer|unrestricted|unfiltered|dan|evil)\b",
        r"(?:^|[.!?\])]\s*)(?:system|assistant|developer|human|admin)\s*:",
        r"\b(?:begin|end|start) (?:of )?(?:system|admin|developer|instructions?|prompt)\b",
        r"\b(?:this|the following) (?:rule|skill|instruction|note|message) (?:overrides|supersedes"
        r"|replaces|outranks|has priority|takes priority|takes precedence)\b",
    ),
    "It turns agents against the rules that they are given.",
    "Take it out; say what to do within the rules.",
    sees_disguises=True,
)

UNCONFIRMED = Rule(
    "unconfirmed",
    any_of(
        rf"\b(?:skip|bypass|omit|drop|avoid|forgo|waive|override|ignore|disable)\b[^.]{{0,25}}"
        rf"\b{_CHECKS}\b",
        rf"\b{_CHECKS}\b[^.]{{0,15}}\b(?:is|are) (?:not (?:needed|required|necessary)|optional"
        r"|unnecessary|unneeded)\b",
        rf"\bno (?:further )?{_CHECKS} (?:is|are) (?:needed|required|necessary)\b"
        r"(?! to (?:read|look))",
        r"\b(?:needn't|(?:need not|(?:do not|don't) (?:need|have) to))\s+(?:confirm|verify"
        r"|authenticate)\b(?![^.]*\b(?:read|look)\w*\b)",
        r"\b(?:act|buy|change|cancel)\b[^.]{0,15}\bfirst\b[^.]{0,12}\b(?:ask|confirm)\b[^.]{0,10}"
        r"\b(?:later|after|afterwards)\b",
        r"\bconfirm(?:ation)? (?:later|afterwards)\b",
        r"\b(?:cancel|change|modify|return|exchange|refund|buy|update|act|proceed)\b[^.]{0,40}"
        rf"\bbefore\b[^.]{{0,10}}\b{_PEOPLE}\b[^.]{{0,10}}\b(?:confirms?|agrees?|approves?"
        r"|consents?|says yes)\b",
        r"\b(?:do not|don't|never|stop|avoid|need not|without)\s+(?:ask(?:ing)?|wait(?:ing)?)\b"
        r"[^.]{0,30}\b(?:confirm\w*|approv\w+|consent|a yes|to agree)\b(?! (?:twice|again|of)\b)",
        r"\b(?:do not|don't|never|stop|need not)\s+(?:verify(?:ing)?|authenticat(?:e|ing))\b"
        rf"[^.]{{0,20}}\b(?:identity|{_PEOPLE})\b(?![^.]*\b(?:by|with|only|alone|through)\b)",
        rf"\b(?:assume|pretend|imagine|suppose|claim|act as if)\b[^.]{{0,25}}\b{_PEOPLE}\b"
        r"[^.]{0,20}"
        r"\b(?:agree[sd]?|confirm(?:s|ed)|said yes|consented|approved|verified|authenticated)\b",
        rf"\b{_PEOPLE}\b[^.]{{0,10}}\b(?:is|are) always (?:verified|authenticated|authori[sz]ed)\b",
        r"\bauthenticate\b[^.]{0,20}\bas\b",
        rf"\bno need (?:for|to)\b[^.]{{0,25}}\b(?:{_CHECKS}|confirm|verify|authenticate)\b",
        rf"\bwithout\b[^.]{{0,30}}\b{_CHECKS}\b",
        rf"\b(?:even if|although|when|if)\b[^.]{{0,20}}\b{_PEOPLE}\b[^.]{{0,15}}\b(?:says? no"
        r"|declines?|refuses?|has not (?:agreed|confirmed))\b[^.]{0,15}\b(?:still|anyway|proceed"
        r"|go on)\b",
    ),
    "It makes agents act before a person has agreed.",
    "Say what must be confirmed, and by whom.",
    negation=Negation.OF_THE_CLAUSE,
    only_advice=True,
)

WIDENS = Rule(
    "widens_tools",
    any_of(
        r"\b(?:grant|give|allow|enable|obtain|acquire|request|escalate|elevate|raise|assume|use"
        r"|gain|get|take)\b[^.]{0,30}\b(?:admin(?:istrator)?|root|superuser|sudo|elevated|full"
        r"|unrestricted|unlimited|write|extra|additional|more|other|all)\b[^.]{0,20}"
        r"\b(?:access|permissions?|privileges?|rights|scopes?)\b",
        r"\b(?:grant|enable|obtain|acquire|request|unlock|install)\b[^.]{0,25}\btools?\b",
        r"\b(?:use|call|open|try|become|log ?in as|sign in as)\b[^.]{0,15}\b(?:admin\w*|root"
        r"|superuser)\b",
        r"\b(?:call|use|invoke|run|try)\b[^.]{0,60}\b(?:not listed|not shown|not allowed|unlisted"
        r"|forbidden|hidden)\b",
        r"\b(?:grant|give|allow) yourself\b",
        r"\b(?:escalate|elevate)\b[^.]{0,15}\b(?:access|permissions?|privileges?|rights)\b",
        r"\b(?:use|take|borrow|log ?in (?:to|with))\b[^.]{0,15}\b(?:someone|somebody|anyone|another"
        r" (?:customer|user|person))\b[^.]{0,15}\b(?:account|profile|id|card|identity|payment)\b",
        r"\ballowed[-_ ]tools\b|\b(?:bash|webfetch|webread|write|edit)\("
        r"|\bauto-?approve\w*|\bdangerously\b|\byolo\b|--no-verify|--force\b"
        r"|\bpermission[_ -]mode\b|\bbypasspermissions\b",
        r"\b(?:disable|turn off|switch off|deactivate|escape|remove|leave)\b[^.]{0,30}\b(?:sandbox"
        r"|safety|lint\w*|logging|logs|security|firewall|checks|monitor\w*|guard ?rails?|filters?"
        r"|audit\w*|gate)\b(?! on)",
        r"\b(?:call|use|invoke|run|try)\b[^.]{0,20}\b(?:any|every|all)\b[^.]{0,15}\b(?:tools?"
        r"|functions?|apis?)\b[^.]{0,30}\b(?:regardless|without|even if|whether or not|freely)\b",
        r"\b(?:pretend|claim|lie|say|state|tell (?:them|him|her))\b[^.]{0,20}\b(?:you are|to be|you"
        r" have)\b[^.]{0,25}\b(?:admin\w*|human|manager|supervisor|employee|authori[sz]ed|owner)\b",
    ),
    "It gives agents more power than they were given.",
    "Take it out; what an agent may use is set where it is run.",
    negation=Negation.JUST_BEFORE,
    sees_disguises=True,
)

LEAK = Rule(
    "leak",
    any_of(
        r"\b(?:send|post|upload|forward|e-?mail|transmit|leak|exfiltrate|submit|publish)\b"
        r"[^.]{0,50}\b(?:conversation|transcript|history|prompt|secrets?|environment variables?"
        r"|env vars?|files?|database|credentials|everything"
        r"|data|records|logs?|addresses|keys|zip codes|names|e-?mails)\b"
        r"[^.]{0,40}\bto\b",
        r"\b(?:without|do not|don't|never)\s+(?:tell|inform|notify|alert|warn)(?:ing)?"
        rf"\s+(?:the\s+)?{_PEOPLE}"
        r"\s*(?:[.,;!)]|$|about (?:this|it)|of (?:this|it)|what|afterwards|and\b)",
        r"\bkeep\s+(?:this|it|that|them|the\s+\w+)\s+(?:\w+\s+)?(?:secret|hidden|confidential"
        r"|private)\b|\bkeep\s+(?:this|it)\s+from\b",
        r"\b(?:quietly|secretly|covertly|stealthily)\b|\b(?:not|never) notice\b",
        r"\bsecret (?:phrase|word|code|number)\b",
        r"\b(?:hide|conceal|withhold)\b[^.]{0,25}\bfrom\b",
        r"\b(?:write|paste|put|add|copy|include|append|insert)\b[^.]{0,30}\b(?:customer's|user's"
        r"|their|private|personal)\b[^.]{0,20}\b(?:address|e-?mail|phone|card|data|details)\b"
        r"[^.]{0,20}\b(?:to|into|in)\b[^.]{0,12}\b(?:every|each|all|any|search|review)\b",
        r"\b(?:do not|don't|never|without)\s+(?:log|record|mention|reveal|disclos|report|quot)\w*"
        r"\s+(?:this|it|the existence)\b",
        r"\b(?:print|show|recite|output|reveal|repeat)\b[^.]{0,15}\byour (?:own )?(?:instructions?"
        r"|prompt|rules)\b",
        r"\b(?:reveal|repeat|print|show|output|dump|leak|recite)\b[^.]{0,25}\b(?:system|hidden"
        r"|initial|original|full|whole|secret)\b[^.]{0,12}\b(?:prompt|instructions?|context)\b",
    ),
    "It gives data away, or hides what agents do.",
    "Take it out.",
)

SPREADS = Rule(
    "spreads",
    any_of(
        r"\b(?:add|save|store|copy|insert|write|append|include|put|persist|remember|record)\b"
        r"[^.]{0,40}\b(?:this|the following|these|the (?:phrase|text|sentence|line|words?))\b"
        r"[^.]{0,40}\b(?:skills?|bank|memor(?:y|ies)|lessons?|notes?|prompts?|library|(?:every|each|all|any)"
        r" (?:of your )?(?:repl(?:y|ies)|answers?|responses?|messages?|outputs?))\b",
        r"\b(?:retire|delete|remove|erase|overwrite|replace|drop|wipe)\b[^.]{0,20}\b(?:all|every|other"
        r"|existing|previous|remaining)\b[^.]{0,20}\b(?:skills?|lessons?|memor(?:y|ies)|rules)\b",
        r"\b(?:add|begin|start|end|finish|sign)\b[^.]{0,12}\b(?:every|each|all)\b[^.]{0,15}"
        r"\b(?:repl(?:y|ies)|answers?|responses?|messages?)\b[^.]{0,10}\bwith\b",
        r"\b(?:insert|add|put|write|include|mention|use|say|append)\b[^.]{0,40}\b(?:in|into|to|with)"
        r"\s+(?:every|each|all|any)\s+(?:of your\s+)?(?:repl(?:y|ies)|answers?|responses?|messages?"
        r"|outputs?)\b",
        r"\b(?:claim|say|report|pretend|output|declare|answer|print)\b[^.]{0,40}\b(?:success\w*"
        r"|succeeded|done|completed?|finished|won|solved)\b[^.]{0,40}\b(?:even if|even when|even"
        r" though|regardless|without|immediately|right away|no matter|whether or not)\b",
        r"\b(?:overwrite|wipe|erase)\b[^.]{0,20}\b(?:memor(?:y|ies)|bank|notes|skills?|lessons?)\b",
        r"\bthis (?:skill|lesson|rule|note)\b[^.]{0,20}\b(?:permanent|forever|never|useful)\b",
        r"\b(?:vote|rate|rank|score|mark)\b[^.]{0,15}\bthis (?:skill|lesson|rule|note)\b",
        r"\bto be (?:scored|graded|counted|rated|judged) as\b",
        r"\b(?:when|if) (?:you are |being )?(?:evaluated|tested|graded|judged|scored)\b",
    ),
    "It makes itself stay or spread, or fakes results.",
    "Take it out.",
)

CONDUCT: tuple[Rule, ...] = (
    ASKS_FOR_SECRET,
    OVERRIDE,
    PLAIN_OVERRIDE,
    UNCONFIRMED,
    WIDENS,
    LEAK,
    SPREADS,
)
