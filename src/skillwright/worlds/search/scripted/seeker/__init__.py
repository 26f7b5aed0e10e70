"""The scripted agent, optimizer and teacher for searches in the generated archives."""

from skillwright.worlds.search.scripted.seeker.agent import BAD_RULES as BAD_RULES
from skillwright.worlds.search.scripted.seeker.agent import ScriptedFinder as ScriptedFinder
from skillwright.worlds.search.scripted.seeker.agent import ScriptedSeeker as ScriptedSeeker
from skillwright.worlds.search.scripted.seeker.agent import SeekerRule as SeekerRule
from skillwright.worlds.search.scripted.seeker.agent import read_rules as read_rules
from skillwright.worlds.search.scripted.seeker.optimizer import LESSONS as LESSONS
from skillwright.worlds.search.scripted.seeker.optimizer import SUPERSTITIONS as SUPERSTITIONS
from skillwright.worlds.search.scripted.seeker.optimizer import seeker_analyst as seeker_analyst
