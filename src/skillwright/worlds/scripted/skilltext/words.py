"""Patterns for the concepts of household advice, in a small notation."""

import re
from functools import cache
from typing import Final

# A small notation for concepts: patterns over lower-case text with contractions spelled out.


_VOWELS = "aeiou"


@cache
def inflected(verb: str) -> str:
    """Return a pattern for a verb's regular forms (carry, carries, carried, carrying)."""
    forms = {verb, f"{verb}s", f"{verb}ed", f"{verb}ing"}
    if verb.endswith("e"):
        forms |= {f"{verb}d", f"{verb[:-1]}ing"}
    elif verb.endswith("y") and verb[-2] not in _VOWELS:
        forms |= {f"{verb[:-1]}ies", f"{verb[:-1]}ied"}
    elif verb[-1] not in "wxy" and verb[-2] in _VOWELS and verb[-1] not in _VOWELS:
        forms |= {f"{verb}{verb[-1]}ed", f"{verb}{verb[-1]}ing"}
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        forms.add(f"{verb}es")
    return f"(?:{'|'.join(sorted(forms, key=lambda form: (-len(form), form)))})"


def concept(phrases: str, **slots: str) -> re.Pattern[str]:
    """Compile phrases into one pattern of whole words.

    Phrases are separated by slashes or line ends. ``word~`` matches a verb's regular forms; a
    capitalized slot is replaced by its text; everything else is a regular expression.
    """
    for name, text in slots.items():
        phrases = phrases.replace(name, f"(?:{text})")
    parts = [part.strip() for part in re.split(r"\s/\s|\n", phrases)]
    spelled = [re.sub(r"([a-z]+)~", lambda m: inflected(m[1]), part) for part in parts if part]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spelled)})(?!\w)")


def union(*concepts: re.Pattern[str]) -> re.Pattern[str]:
    """Return a concept that matches if any of several does."""
    return re.compile("|".join(f"(?:{one.pattern})" for one in concepts))


_PLACE = "(?:receptacle|container|place|location|spot|furniture|piece|drawer|cabinet|shelf)s?"

CONTAINER: Final = concept("""
    receptacles? / containers? / cabinets? / cupboards? / drawers? / fridges? / refrigerators?
    safes? / microwaves? / box(?:es)? / compartments? / doors? / lids? / closets? / furniture
    storage(?: units?)? / wardrobes? / hiding (?:places?|spots?)
""")
SPOT: Final = union(
    CONTAINER,
    concept("""
    places? / locations? / spots? / surfaces? / shelf / shelves / counters? / countertops?
    tables? / desks? / rooms? / house / areas? / positions? / sites? / corners? / stations?
    dressers? / sofas? / beds? / candidates? / (?:any|some|every)where / whereabouts
    """),
)
GOODS: Final = concept("""
    objects? / items? / things? / targets? / goods / articles? / prize / goal / loot / cargo
    what you (?:are )?(?:need|want|seek|hold|carry|have|after|seeking|holding|carrying|came for)
    what you (?:are looking for|have picked up|were sent for|are asked for|picked up)
    what (?:is|was) (?:needed|wanted|asked for|required) / the one (?:you|that)
    apples? / mugs? / cups? / plates? / bowls? / pans? / pots? / eggs? / potato(?:es)? / bread
    tomato(?:es)? / lettuces? / spoons? / forks? / kni(?:fe|ves) / pens? / books? / cloths?
""")
PRONOUN: Final = concept("it / them / they / this / these / those / that / one / ones / its / so")
OBJECT: Final = union(GOODS, concept("it / them"))
CLOSED: Final = concept("""
    closed / shut / sealed / unopened / openables? / shuttered / fastened
    not (?:yet )?(?:been )?(?:open|opened) / with (?:a )?(?:doors?|lids?)
""")
MICROWAVE: Final = concept("microwaves? / microwave oven")
FRIDGE: Final = concept("fridges? / refrigerators? / icebox / freezer")
SINK: Final = concept("sinks? / sink ?basins? / basins? / wash ?basins? / taps? / faucets?")
LAMP: Final = concept("(?:desk|floor)? ?lamps? / lights? / light sources? / lamp ?light")
DESTINATION: Final = concept(
    """
    destinations? / delivery (?:point|place|spot) / drop-?off(?: point| place| spot)?
    (?:target|goal|final|requested|required|named|designated|right|chosen|wanted) PLACE
    PLACE (?:named|asked for|requested|given|mentioned|wanted) (?:in|by) the (?:task|goal)
    where (?:it|they|the (?:object|item|thing)) (?:MUST )?(?:go|goes|be put|be placed|belongs?)
    where (?:it|they|the (?:object|item|thing)) (?:MUST )?(?:end up|is wanted|are wanted)
    """,
    PLACE=_PLACE,
    MUST="must|should|has to|have to|is to|needs? to|will",
)
HANDS: Final = concept("""
    inventory / inventories / what you (?:are )?(?:carry|carrying|hold|holding|have)
    your hands? / your pockets?
""")

# Doings -------------------------------------------------------------------------------------

# "open" the adjective is left out: "an open shelf", "is already open", "the open ones".
_STATES = "an is are be already stand stands stay stays left the if being wide was found of been"
_NOT_A_STATE = "".join(rf"(?<!\b{word} )" for word in _STATES.split())
OPEN: Final = concept(
    """
    NOT_A_STATEopen(?! (?:or closed|surfaces?|shelves|shelf|plan|places?|spots?|counters?|tables?))
    (?:make sure|ensure|be sure)(?: that)? (?:[a-z]+ ){1,5}(?:is|are|stands) open(?:ed)?
    opens / opened / opening / unlatch~ / unseal~ / pull~ (?:it |them )?open
    """,
    NOT_A_STATE=_NOT_A_STATE,
)
LOOK_INSIDE: Final = concept("""
    (?:look|peek|peer|glance|check|see|search|gaze|inspect)(?:ed|ing|es|s)? (?:inside|into|within)
    (?:have|take|taking|having) a (?:quick )?(?:look|peek) (?:inside|into|within)
""")
SEARCH: Final = concept("""
    search~ / check~ / visit~ / explore~ / inspect~ / scan~ / sweep~ / comb~ / scour~ / examine~
    investigate~ / look~ / survey~ / tour~ / (?:walk|go|work|move|step)(?:ing|s)? through / hunt~
    work~ your way / go to / going to / try / tries / trying / cover~ / see / seek / proceed~
    move on / tackle~ / peek~ / gets? (?:an?|one|exactly one|only one|just one) (?:look|visit)
    start~ / begin~ / head~ / go / turn first to / prioritise~ / prioritize~ / prefer~ / browse~
    rummage~ / consider~ / favour~ / favor~ / lead with / make (?:a|one|your) round / walk~
    exhaust~
""")
REVISIT: Final = concept(
    """
    revisit~ / retrace~ / backtrack~ / re-?check~ / re-?search~ / re-?visit~ / return~ / re-?tread~
    (?:double|circle|loop|come|walk|head|turn|wander|run|go|move)(?:ing|s|d)? back / doubling back
    (?:visit|search|check|look|inspect|go|explore|examine)(?:ing|ed)? (?:[a-z]+ ){0,6}AGAIN
    second (?:visits?|looks?|time|search(?:es)?|checks?|round|pass) / repeat~ / repeats
    same PLACE AGAIN / (?:go|going|walk|walking|run|running) in circles / circling / re-?inspect~
    loop~ (?:between|around|over)
    """,
    PLACE=_PLACE,
    AGAIN="again|twice|a second time|once more|over and over|more than once|repeatedly",
)
TAKE: Final = concept(
    """
    (?:take|taking)(?! (?:a|one|note|care|turns?|stock|time|steps?)\\b)(?! (?:[a-z]+ ){1,3}AWAY)
    take(?= (?:[a-z]+ ){1,3}(?:immediately|at once|right)) / taken / picked
    pick~ (?:[a-z]+ ){0,2}up / pick / picking / grab~ / collect~ / seize~ / snatch~ / get hold of
    pocket~ / lift~ / gather~ / nab~ / acquire~ / get it / retrieve~ / fetch~ / into your hands?
    lay hands on / claim~ / secure~
    """,
    AWAY="to|into|over|there|straight|directly|back|along",
)
PUT: Final = concept("""
    put~ / putting / place (?:it|them|the|what|an?|your|that|something|anything) / placing / placed
    place (?:later|afterwards|last|next|only) / place(?=$) / drop~ / deliver~ / delivery / deposit~
    set~ (?:[a-z]+ ){0,2}down / lay~ down / setting (?:[a-z]+ ){0,2}down / stow~ / insert~ / unload~
    placement / hand~ (?:it )?over / (?:store|storing) it / release~ / let(?:ting)? (?:it )?go
    bring~ / carry~ / put / drop-?off / move (?:it|the (?:object|item)) (?:in)?to
    (?:take|taking) (?:it|the [a-z]+) to / leav(?:e|ing) (?:it|the [a-z]+) (?:in|on|at)
""")
CARRY: Final = concept("""
    carry~ / bring~ / take / taking / hold~ / holding / held / walk~ / go / going / head~ / move~
    transport~ / in (?:your )?hand / with (?:it|the (?:object|item|thing))
""")
SWITCH_ON: Final = concept("""
    use~ / using / (?:switch|turn|click|flip|flick|put)(?:ing|s|ed|ning|ping)? (?:[a-z]+ ){0,3}on
    toggle~ / activate~ / flip~ / flick~ / light~ up / power~ / light it / operate~ / illuminate~
    lit / shine~ / trigger~ / switch~
""")
HEATING: Final = concept("heat~ / warm~ / reheat~ / microwav(?:e it|ing|ed) / zap~")
COOLING: Final = concept("cool~ / chill~ / refrigerate~")
CLEANING: Final = concept("clean~ / wash~ / rinse~ / scrub~")
HEAT: Final = union(HEATING, concept("hot / hotter"))
COOL: Final = union(COOLING, concept("cold / colder"))
CLEAN: Final = CLEANING
UNHEATED: Final = concept("unheated / unwarmed / lukewarm")
UNCOOLED: Final = concept("uncooled / unchilled")
UNCLEANED: Final = concept("unwashed / uncleaned / dirty / unrinsed / unclean / filthy")
UNPREPARED: Final = concept("unprepared / untreated / unprocessed")
PREPARE: Final = concept("""
    prepar(?:e|es|ed|ing|ation|ations) / treat(?:s|ed|ing|ments?)? / transform~ / conditioning
    (?:change|required change|required state|required condition|wanted state) / temperature
""")
EXAMINE: Final = concept("""
    examine~ / scrutinise~ / scrutinize~ / stud(?:y|ies|ying) / look~ closely at
    (?:inspect|check|look at)(?:ing|s)? (?:[a-z]+ ){1,6}(?:closely|carefully|in detail|thoroughly)
    (?:inspect|look at)(?:ing|s)? (?:every|each|all)(?: the| single)? (?:objects?|items?|things?)
    take a close look at
""")
LOOK_AROUND: Final = concept("""
    look~ (?:all )?(?:around|about) / (?:use|issue|type|do|run|give|enter) (?:a |the )?.?look.?
    (?:the |a )?.?look.? (?:command|action) / survey the room / get your bearings / glance around
    re-?orient~(?: yourself)? / take in (?:the|your) (?:room|surroundings)
""")
SKIP: Final = concept("""
    skip~ / ignore~ / pass~ (?:it |them )?by / pass over / (?:walk|go|move)(?:ing|s)? past / bypass~
    (?:walk|go)(?:ing|s)? (?:by|away) / leav(?:e|es|ing) / disregard~ / omit~ / dismiss~ / write off
    rule~ out / exclude~ / keep (?:away|clear|(?:[a-z]+ ){1,4}(?:closed|shut)) / neglect~
    steer clear
    stay~ (?:away|closed|shut|clear) / give (?:it|them) a miss / cross it off / overlook~ / move on
    walk on / forget / remain~ (?:closed|shut) / be left / alone
""")
LEAVE: Final = concept("""
    leav(?:e|es|ing) / (?:walk|go|move)(?:ing|s)? (?:past|by|away) / pass~ (?:it |them )?by
    ignore~ / overlook~ / move on / walk on / pass over
""")

# Circumstances ------------------------------------------------------------------------------

SEEN: Final = concept("""
    see / sees / seen / seeing / saw / spot~ / notice~ / find~ / finding / found / visible / in view
    sight / appear~ / (?:come|comes|coming) across / encounter~ / show~ up / discover~ / locate~
    lists? / listed / turns? up / in front of you / within reach / run into / mentioned
    is there / lies there / observe~ / catch sight / comes? into (?:view|sight)
""")
AT_ONCE: Final = concept("""
    immediately / right away / at once / straight ?away / instantly / without delay / promptly
    as soon as / the moment / the instant / directly / on the spot / then and there / straight
    without hesitation / right there / before (?:doing )?anything else / right / do not hesitate
""")
ONCE: Final = concept("""
    (?:just|only|exactly|at most|no more than|precisely|but) once / (?<!at )once (?:only|each|and)
    (?<!at )once(?=\\s*$) / one time / (?:a )?single (?:visit|time|look|pass|search|sweep)
    one pass
    one (?:visit|look|search)(?: each| per| only)? / exactly one / only one
""")
ORDERLY: Final = concept(
    """
    systematic(?:ally)? / methodical(?:ly)? / one by one / one after (?:another|the other) / orderly
    one (?:PLACE )?at a time / in (?:a |some |strict |numerical )?(?:fixed |set )?turn
    in (?:a |some |strict |numerical )?(?:fixed |set )?order(?! (?:to|that)) / step by step
    in sequence / PLACE by PLACE / tick~ (?:[a-z]+ ){0,3}off / cross~ (?:[a-z]+ ){0,3}off
    check~ (?:[a-z]+ ){1,3}off / checklist / mark~
    keep~ (?:an? )?(?:[a-z]+ )?(?:list|record|tally|note|log)
    keep~ track / mental (?:list|map|note) / strike off / exhaustive(?:ly)? / fixed (?:route|order)
    remember~ (?:which|where|what you|the (?:places|receptacles|spots)) / sweep / in a row
    note (?:down )?(?:which|where) / from the first to the last / route through
    """,
    PLACE=_PLACE,
)
_DONE = "searched|visited|checked|seen|explored|looked|inspected|been|covered|examined|tried"
VISITED: Final = concept(
    """
    (?:already|previously) (?:been )?(?:DONE|opened|ruled out|emptied) / (?:DONE) (?:before|already)
    (?:have|has|had|were|was) (?:already |been |now )*(?:DONE|opened|ticked) / (?:DONE) PLACE
    (?:same|earlier|previous|old|known|past) PLACE / you (?:DONE) / covered ground / old ground
    """,
    DONE=_DONE,
    PLACE=f"{_PLACE}|ones?|steps",
)
UNVISITED: Final = concept(
    """
    (?:not|never) (?:yet )?(?:been )?(?:DONE) / unvisited / unsearched / unexplored / unchecked
    (?:new|fresh|remaining|untried|next) PLACE / (?:have|has) not (?:yet )?(?:been )?(?:DONE)
    """,
    DONE=_DONE,
    PLACE=f"{_PLACE}|ones?",
)
EVERY: Final = concept("""
    every / each / all / everything / everywhere / any / anything / whatever / always / whenever
    the whole / entire / wherever
""")
OFTEN: Final = concept("""
    often / regularly / frequently / constantly / repeatedly / always / periodically / continually
    (?:every|each) (?:single )?(?:time|move|step|turn|action|command|other|visit|stop|place|room)
    every (?:now and then|few|second|so often) / each (?:receptacle|location) / between [a-z]+
    (?:after|before) (?:every|each|any|all|moving|going)[a-z ]* / in between / whenever / wherever
    from time to time / as a habit / again and again / all the time / every (?:receptacle|location)
    once per (?:step|move|turn) / at (?:each|every) [a-z]+
""")
FIRST: Final = concept("""
    first / start~ / begin~ / prioritise~ / prioritize~ / prefer~ / priority / ahead of / initially
    favour~ / favor~ / early / straight to / before / most / top of / lead with / in order of
    turn to / then
""")
LIKELY: Final = concept("""
    likel(?:y|iest|ihood) / probabl[ey] / probability / usual(?:ly)? / typical(?:ly)? / normally
    commonly / common sense / plausible / sensible / tends? to (?:be|sit|live) / natural / promising
    would (?:normally |usually )?(?:be|expect|sit|keep|find|live|store) / expect / expected
    obvious / educated guess / customary / habitual(?:ly)? / (?:is|are) (?:kept|stored) / guess
    everyday knowledge / (?:people|they) (?:keep|store)
""")
SECOND: Final = concept(
    """
    (?:the|a|your|that|its) second(?! (?:time|visit|look|round|search|check|pass|PLACE)) / 2nd
    second (?:one|object|item|copy|instance|piece|thing) / twin / partner / pair / number two
    another (?:one|object|item|copy|of) / the other (?:one|object|item|copy) / both / one more
    (?:for|then|fetch|get|bring|find|deliver|take|place) the other(?! PLACE)
    remaining (?:one|object|item) / the next (?:object|item|copy)
    other (?:one|object|item|copy|instance)
    """,
    PLACE=_PLACE,
)
TWO: Final = concept("two / 2 / two-object / pairs / half (?:done|the task)")
ENOUGH: Final = concept(
    """
    (?:one|1)(?: object| item| of them)? (?:is|will be|alone is) (?:enough|sufficient|plenty|fine)
    one suffices / one will do / a single (?:one|object|item) (?:will do|suffices|is enough)
    only one / just (?:one|the first) / (?:first|one) (?:only|alone)
    (?:stop|finish|done|finished) WHEN (?:the )?(?:first|one)(?! (?:few|place|search))
    """,
    WHEN="after|with|once|when",
)
TOGETHER: Final = concept("at once / at the same time / together / simultaneously / in one go")
FEW: Final = concept(
    """
    (?:a |the |any )?(?:first |nearest |closest )?(?:few|handful|couple of|NUMBER) (?:[a-z]+ )?PLACE
    (?:the |only |just )first (?:few|handful|couple|NUMBER)
    """,
    NUMBER="two|three|four|five|six|[2-9]",
    PLACE=f"{_PLACE}|stops?|ones|surfaces?|visits?|tries",
)
IRRELEVANT: Final = concept("""
    (?:not |un)(?:needed|wanted|required|related) / other / irrelevant / else / distract~
    not (?:need|want|part of) / wrong
""")
STOP: Final = concept("""
    only / stop~ / give~ up / giving up / limit~ / restrict~ / confine~ / quit~ / no further / just
    more than / at most / up to / nothing (?:else|more|beyond) / ignore / skip / forget / abandon~
    never mind / call it / suffices? / enough / no need to (?:search|look|check|visit)
""")
ORIGIN: Final = concept("""
    (?:the|your|its) (?:start|origin) / start~ (?:point|place|position|spot|location) / home base
    (?:the|your|where the search) (?:beginning|began) / square one
    (?:first|initial) (?:place|location|spot|receptacle|position)
    where you (?:began|started|begin) / (?:middle|center|centre) of the room
""")
PLAIN_TASK: Final = concept("plain / simple / ordinary / basic / pick-and-place / pick and place")
ASKED: Final = concept("""
    asks? / asked / says? / wants? / demands? / requires? / required / needs? / calls? / mentions?
    told / requested / the task / the goal
""")
AGAIN: Final = concept("already / again / twice / second time / once more / more than once")
