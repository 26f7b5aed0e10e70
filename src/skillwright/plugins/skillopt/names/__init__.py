"""What stands under the module paths of `skillopt`: one file per group of modules.

Each has a table ``MODULES``: path -> name -> thing. Who looks for a function of theirs finds here
what it is of ours; where their signature is another one, it is written out.
"""
