"""What the models behind a simulated user are told. A changed word changes scores.

The obligations are tau-bench's (arXiv:2406.12045), and so is their place: the instruction stands
behind the first sentence. The words are ours.
"""

from collections.abc import Sequence
from string import Template
from typing import Final

from skillwright.core import Message
from skillwright.envs.tau_bench.users import STOP

_ROLE: Final = f"""\
You play a customer who is in a conversation with a customer service agent.

Instruction: {{instruction}}

How you play:
- Each of your messages is one line, and is the next thing that the customer says.
- Do not tell everything at once. Say only what the present step of the conversation needs.
- Make nothing up that the instruction does not say. When the agent asks for something that is not
  in it, such as an order id, say that you do not remember it or do not have it.
- When what the instruction wants is reached, write {STOP} as your whole message, with nothing
  beside it. That ends the conversation.
- Never recite the instruction; say the same things in words of your own.
- Talk naturally, and stay the person whom the instruction describes.
"""

_BOUNDARY: Final = """\
- The conversation is not at its end while the agent waits for you to confirm something, nor before
  the agent has told you that what you confirmed is done. Confirm first, and end it later.
"""

_ASIDE: Final = f"""
Think before you speak. Write every message in this form:

Thought: <what you consider; the agent never sees it>
User Response: <the one line that the agent sees, or {STOP}>
"""

_ABOUT: Final = """\
You watch over somebody who plays a customer in a conversation with a customer service agent. This
is what the customer was told:

$role
The conversation so far:

$transcript

"""

_JUDGE: Final = f"""\
{_ABOUT}The customer is about to say:

$draft

Is that a good next message: true to the instruction and to the rules, and made up of nothing else?
Answer with one word, true or false.
"""

_REFLECT: Final = f"""\
{_ABOUT}The customer was about to say this, and it was found not to be good:

$draft

Consider what is wrong with it, and write a message that is right. Answer in this form:

Reflection: <what was wrong>
Response: <the one line that the customer should say, or the marker that ends the conversation>
"""

_ADVICE: Final = """\
(This is not from the agent, who sees none of it. You were about to answer: $draft
That was found not to be good. Something better would be: $proposal
Now write your next message to the agent, and nothing else.)"""


def role_prompt(instruction: str, variant: str, *, thinks_aloud: bool = False) -> str:
    """Return what a model that plays the customer is told."""
    # Not by str.format: an instruction may hold braces.
    role = _ROLE.replace("{instruction}", instruction)
    boundary = _BOUNDARY if variant == "completion_boundary" else ""
    return role + boundary + (_ASIDE if thinks_aloud else "")


def judge_prompt(conversation: Sequence[Message], draft: str) -> list[Message]:
    """Ask whether a draft is a good next message in a conversation, as the customer sees it."""
    return _about(_JUDGE, conversation, draft)


def reflect_prompt(conversation: Sequence[Message], draft: str) -> list[Message]:
    """Ask what is wrong with a draft and for a better one."""
    return _about(_REFLECT, conversation, draft)


def advice(draft: str, proposal: str) -> Message:
    """Pass a better message on to the customer, who may still say something else."""
    told = Template(_ADVICE).substitute(draft=draft, proposal=proposal)
    return {"role": "user", "content": told}


def _about(prompt: str, conversation: Sequence[Message], draft: str) -> list[Message]:
    role, *said = conversation
    # The model is the customer, so to it the agent is the user.
    speakers = {"user": "Agent", "assistant": "Customer"}
    transcript = "\n".join(f"{speakers[one['role']]}: {one['content']}" for one in said)
    asked = Template(prompt).substitute(role=role["content"], transcript=transcript, draft=draft)
    return [{"role": "user", "content": asked}]
