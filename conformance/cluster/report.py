"""What a round has shown, for people; and for those who look into a failure, its whole history."""

MAX_VIOLATIONS = 5


def show(result, folder):
    print(result.line(), flush=True)
    for rule, violations in result.violations.items():
        print(f"         {rule}: {len(violations)}")
        for violation in violations[:MAX_VIOLATIONS]:
            print("\n".join(f"            {line}" for line in str(violation).splitlines()), flush=True)
    if not result.is_sound and result.history is not None:
        with open(folder / f"round-{result.number}-{result.fault}.txt", "w") as file:
            for attempt in sorted(result.history.attempts, key=lambda attempt: attempt.start):
                file.write(f"{attempt.key} {attempt}\n")
