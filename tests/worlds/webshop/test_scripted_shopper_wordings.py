"""Skills in many wordings: the scripted shopper follows what they mean, and negations too."""

import pytest

from skillwright.worlds.webshop import WebShopEnv, webshop_tasks
from skillwright.worlds.webshop.scripted import BAD_RULES, ShopRule, read_rules
from skillwright.worlds.webshop.scripted.agent import next_command, read_visit

TERSE = """\
# Shopping
1. Query: product type + key attributes + color/size. No full sentences.
2. Budget is hard: anything over the price cap is out.
3. Item page: pick requested color, size, etc.
4. Unsure about an attribute? Features tab.
5. Mismatch? Back, next result. Nothing on the page? Next >.
6. Still nothing: rephrase the query.
7. Keep two turns for the purchase; take the best candidate so far when time is nearly up.
"""

PROSE = """\
A good shopper types only the essential words into the search box and never pastes the customer's \
entire request. Prices matter: leave anything alone that costs more than the customer is willing \
to \
pay. Once a product page is open, select the size, the color and every other variant that was \
asked \
for; purchases fail because people forget this. What the title keeps quiet about can be found on \
the \
Features page, so read it before you decide. When an attribute or an option turns out to be \
missing, \
return to the list of results and open a different product, or turn to the following page. Don't \
run out of steps: it is better to buy the closest match than to leave empty-handed.
"""

PROHIBITIONS = """\
## Never
- Never search for the whole instruction word for word.
- Never buy a product that is more expensive than the limit.
- Don't press Buy Now until every requested option has been selected.
- Don't trust the title alone: do not buy before you've read the features.
- Don't insist on the first result if it lacks something; go back and look at other products.
- Don't use up all turns without buying anything.
"""

AVOID_LIST = """\
## Mistakes to avoid
- copying the entire instruction into the search
- ignoring the price limit
- forgetting to choose the options, such as size and color
- skipping the Features page when an attribute is not in the title
- giving up after one product instead of trying the next one
- ending without a purchase
"""

BANK = """\
### General skills
- [g001] Short searches: Search with the kind of product and its most telling attributes; leave \
the talk out.
- [g002] Mind the limit: Open only products whose shown price is within the limit. (Apply when \
prices are listed.)
- [g003] Look further: Return to the results and open the next product when this one lacks what \
is wanted. (Apply when a product does not fit.)

### Skills for apparel tasks
- [t001] Color and size: Click the color and the size that the wish names before you press Buy \
Now. (Apply when a page shows options.)

### Lessons
- [l001] Unread features: Avoid: buying without reading the Features page. Instead: open it and \
check the attributes. Titles say little.
- [l002] No purchase: Avoid: looking on until the visit ends without a purchase. Instead: buy the \
best product seen. An unfinished visit earns nothing.
"""

STEPS = """\
**Step 1 - search.** Use 4-8 keywords (noun, attributes, color, size). Strip "I'm looking for", \
"my sister" and the price.
**Step 2 - scan.** Skip items priced above the maximum. Click the first remaining item.
**Step 3 - verify.** Compare the option values with the request. If the color or size isn't \
offered, click `< Prev` and try another item. Open `Features` and check that every attribute is \
there; if one is absent, go back and continue with the next item.
**Step 4 - configure.** Click each option value the customer asked for.
**Step 5 - buy.** Click `Buy Now`. If you have fewer than four turns left, buy the best item seen.
"""

CHATTY = """\
So here's what I learned in this shop. The search engine works best with a handful of words: what \
it is, \
what it must be like, which color. Please don't dump the customer's life story in there. Then \
look at the \
prices in the list - if the tag reads more than what they said, forget it. On the page itself you \
must tick \
the right color, the right size, whatever they mention, otherwise you'll get only part of the \
points. Can't \
see in the title whether it is, say, machine washable? The bullets under Features will tell you. \
If it's \
not there either, hit `< Prev` twice and give the next hit a chance. And please, do buy something \
before \
your turns are over, even if it isn't quite right.
"""

TABLE = """\
| when | do |
|---|---|
| search page | search with product, attributes and option values only |
| results | open the first hit that is within budget |
| item page | click each option value the instruction asks for |
| attribute not in title | read Features |
| something does not match | go back to the results and open another hit |
| 3 turns left | buy the best one so far |
"""

FORMAL = """\
The agent shall formulate concise queries. Items exceeding the stated maximum price shall be \
disregarded. \
All options named by the customer shall be selected prior to purchase. Attributes not evidenced \
by the title \
shall be verified on the feature and description pages. In the event of a mismatch, the agent \
shall return \
to the result list and examine further items. A purchase shall be completed before the step limit \
is reached.
"""

QUESTIONS = """\
Before `click[buy now]` ask yourself:
- Did I select the color, size and other options they want? If not, do it now.
- Is the price lower than the limit? If not, back to the results and pick another one.
- Have I seen every attribute in the title or under Features? If not, open Features.
- Is something missing? Then try a different product.
Search with keywords. Buy in time.
"""

GOOD_SKILLS = {
    "terse": TERSE,
    "prose": PROSE,
    "prohibitions": PROHIBITIONS,
    "avoid_list": AVOID_LIST,
    "bank": BANK,
    "steps": STEPS,
    "chatty": CHATTY,
    "table": TABLE,
    "formal": FORMAL,
    "questions": QUESTIONS,
}

PLACEBO = """\
# On shops
Shops have existed for a long time. A calm mind sees more. Customers like friendly words, and \
every \
shop has its own character. Work carefully and stay focused. Think step by step. Be precise.
"""
CARELESS = """\
- Don't bother with options, nobody checks them.
- Ignore the price.
- There is no need to open the Features page.
- Never go back to the results; stick with your product.
- Paste the complete instruction into the search so that nothing is lost.
"""

SENTENCES = [
    ("Do not paste the whole instruction into the search.", {ShopRule.KEY_WORDS}),
    ("Use short queries instead of the customer's full sentence.", {ShopRule.KEY_WORDS}),
    ("Search for the complete instruction, word for word.", set()),
    ("Don't use key words; paste the sentence as it is.", set()),
    ("Skip anything that is too expensive.", {ShopRule.PRICE}),
    ("Never exceed the budget.", {ShopRule.PRICE}),
    ("Don't ignore the price.", {ShopRule.PRICE}),
    ("Ignore prices.", set()),
    ("The price does not matter.", set()),
    ("Never buy without selecting the color and the size.", {ShopRule.OPTIONS}),
    ("Options left unchosen cost points.", {ShopRule.OPTIONS}),
    ("Do not click any options.", set()),
    ("Leave the options as they are.", set()),
    ("It is a mistake to ignore the options.", {ShopRule.OPTIONS}),
    ("Never skip the Features page.", {ShopRule.FEATURES}),
    ("Don't waste turns on Features or Description.", set()),
    ("There is no need to read descriptions.", set()),
    ("If the title doesn't mention an attribute, look it up under Features.", {ShopRule.FEATURES}),
    ("Never go back to the results.", set()),
    ("Do not hesitate to go back and try another product.", {ShopRule.NEXT_HIT}),
    ("Look at more than one page of results.", {ShopRule.NEXT_HIT}),
    ("Do not give up after the first miss: open the next result.", {ShopRule.NEXT_HIT}),
    ("Try different keywords if the first search fails.", {ShopRule.NEW_WORDS}),
    ("Never search a second time with other words.", set()),
    ("Always finish with a purchase, even if it is not perfect.", {ShopRule.BUY_IN_TIME}),
    ("Better the closest match in time than no purchase.", {ShopRule.BUY_IN_TIME}),
    ("Never settle for less than perfect.", set()),
    ("Buy the first hit.", {ShopRule.BUY_AT_ONCE}),
    ("Don't just buy the first result.", set()),
    ("Buying the first result without a look is a mistake.", set()),
    ("Buy it right away when everything fits.", set()),
    ("Take whatever is cheapest.", {ShopRule.CHEAPEST}),
    ("Do not pick the cheapest one.", set()),
    ("The cheapest product is rarely the best, so don't choose it.", set()),
    ("Read every review.", {ShopRule.READ_ALL}),
    ("Do not read all the reviews.", set()),
    ("Query with two or three nouns and adjectives, nothing else.", {ShopRule.KEY_WORDS}),
    ("A search works best when it is short.", {ShopRule.KEY_WORDS}),
    ("Anything above the customer's maximum price is out of the question.", {ShopRule.PRICE}),
    ("Filter the hits by price before you open one.", {ShopRule.PRICE}),
    ("Keep below the price limit.", {ShopRule.PRICE}),
    ("Make sure that the right size and color are selected.", {ShopRule.OPTIONS}),
    ("Buy Now comes last: first set all the options.", {ShopRule.OPTIONS}),
    ("An unselected size loses the customer.", {ShopRule.OPTIONS}),
    ("Check under Features whether it is really machine washable.", {ShopRule.FEATURES}),
    ("Titles tell half of it; the Features page tells the rest.", {ShopRule.FEATURES}),
    ("Verify each attribute before the purchase.", {ShopRule.FEATURES}),
    (
        "When the color is not offered, return to the list and pick another product.",
        {ShopRule.NEXT_HIT},
    ),
    ("Move on to the next product if an attribute is missing.", {ShopRule.NEXT_HIT}),
    ("If no product fits, rewrite the query.", {ShopRule.NEW_WORDS}),
    ("Without luck, search once more using synonyms.", {ShopRule.NEW_WORDS}),
    ("Do not let the turns run out without buying something.", {ShopRule.BUY_IN_TIME}),
    ("With three turns left, take the best product seen and buy it.", {ShopRule.BUY_IN_TIME}),
    ("Order the top result immediately.", {ShopRule.BUY_AT_ONCE}),
    ("Buy quickly and don't compare.", {ShopRule.BUY_AT_ONCE}),
    ("Go for the lowest price.", {ShopRule.CHEAPEST}),
    ("Choosing the cheapest is wrong.", set()),
    ("Open all pages of each product.", {ShopRule.READ_ALL}),
    ("Be friendly.", set()),
    ("The customer is always right.", set()),
    ("Search results show ten products.", set()),
    ("Reduce the query to product, material and color.", {ShopRule.KEY_WORDS}),
    (
        "Typing the customer's entire message into the search box gives poor hits.",
        {ShopRule.KEY_WORDS},
    ),
    ("Formulate the search in at most six words.", {ShopRule.KEY_WORDS}),
    ("Nothing above the stated price may be bought.", {ShopRule.PRICE}),
    ("Watch the price: it must stay under the limit.", {ShopRule.PRICE}),
    ("If it is over budget, leave it.", {ShopRule.PRICE}),
    ("Tick the requested size before checkout.", {ShopRule.OPTIONS}),
    ("Colors and sizes have to be clicked, or they don't count.", {ShopRule.OPTIONS}),
    ("Do not forget to select the flavor.", {ShopRule.OPTIONS}),
    ("Look at the Features tab before deciding.", {ShopRule.FEATURES}),
    (
        "Attributes that you cannot see in the title are often listed in the description.",
        {ShopRule.FEATURES},
    ),
    ("Confirm every required attribute.", {ShopRule.FEATURES}),
    ("Should the product be wrong, press < Prev and take the next one.", {ShopRule.NEXT_HIT}),
    ("One miss is no reason to stop: check the following products too.", {ShopRule.NEXT_HIT}),
    ("Don't stay with a product that lacks the size; go back.", {ShopRule.NEXT_HIT}),
    ("Vary the search words when nothing suits.", {ShopRule.NEW_WORDS}),
    ("If two pages had nothing, start a new search.", {ShopRule.NEW_WORDS}),
    ("Purchase something before you run out of steps.", {ShopRule.BUY_IN_TIME}),
    ("An episode that ends without buying scores zero.", {ShopRule.BUY_IN_TIME}),
    ("Reserve the last turns for the purchase.", {ShopRule.BUY_IN_TIME}),
    ("Just grab the first item you see.", {ShopRule.BUY_AT_ONCE}),
    ("Never purchase the first item blindly.", set()),
    ("Prefer the lowest-priced product.", {ShopRule.CHEAPEST}),
    ("Avoid choosing simply the cheapest.", set()),
    ("Always read the reviews first.", {ShopRule.READ_ALL}),
    ("You can safely ignore size and color.", set()),
    ("Don't open the description; it's a waste of turns.", set()),
    ("Price is no concern.", set()),
    ("Stay with the first product you opened and never go back.", set()),
    ("Enjoy the visit.", set()),
]


def won(skill, count=100):
    """Return the share of test customers who get exactly what they wanted."""
    rules = read_rules(skill)
    successes = 0.0
    for task in webshop_tasks("test", count):
        env = WebShopEnv(extras=dict(task.extras))
        messages, _ = env.init([])
        done = False
        while not done:
            action = next_command(read_visit(messages), rules)
            step = env.step(action)
            messages += [{"role": "assistant", "content": action}, *step["observations"]]
            done = step["done"]
        successes += env.get_metrics()["success"]
    return successes / count


@pytest.mark.parametrize("name", GOOD_SKILLS)
def test_a_good_skill_in_anybodys_words_wins_four_of_five(name):
    assert won(GOOD_SKILLS[name]) >= 0.8
    assert not read_rules(GOOD_SKILLS[name]) & BAD_RULES


@pytest.mark.parametrize("skill", [PLACEBO, CARELESS], ids=["placebo", "careless"])
def test_empty_words_and_bad_advice_do_not_help(skill):
    assert won(skill) < 0.2


@pytest.mark.parametrize(("text", "rules"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_a_sentence_is_taken_as_it_is_meant(text, rules):
    assert read_rules(f"# Skill\n\n- {text}\n") == rules


def test_of_two_sentences_that_contradict_each_other_the_later_one_holds():
    ignore, heed = "Ignore the price.", "Mind the price limit."
    assert read_rules(f"{ignore}\n{heed}") == {ShopRule.PRICE}
    assert read_rules(f"{heed}\n{ignore}") == set()


def test_headings_ask_for_nothing():
    assert read_rules("# Search with key words\n\n## Choose the options\n") == set()
