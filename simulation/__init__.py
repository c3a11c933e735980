"""A deterministic simulator: the real code, in made-up time, on an AWS that lies.

Submit, workers, reconcilers and operators run as they are, each as a process of its
own on one event loop. A seed decides everything: who runs next, how long a request
takes, which reply is lost, who is killed or frozen and when. Every write to the tables
is checked as it happens, and once the faults have ended every job has to end, too. A
seed that breaks a promise breaks it again, each time, in the same words.
"""
