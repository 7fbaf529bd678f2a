/*
 * What waits for a person, for the server, the command line and the panel. A further kind is a row of `waitingRows`, a right
 * in www/state/session.ts, and what finds it in operate/machine/status.ts.
 */

const byOperators = { words: 'An operator or an admin decides.' }

/** What each kind says, without and with an end, and who decides it. English; the panel passes it to t(). */
export const waitingRows = {
  confirmation: {
    words: 'waits for confirmation',
    until: { words: 'waits for confirmation until {time}' },
    who: { words: 'The token that started it, an operator or an admin decides.' }
  },
  approval: { words: 'waits for approval', until: null, who: byOperators },
  halted: { words: 'rollout halted', until: null, who: byOperators }
} as const

/** What a deployment or a rollout waits for. */
export type WaitingFor = keyof typeof waitingRows

/** The fields of a deployment that say whether it waits. */
interface Held {
  status: string
  steps: ReadonlyArray<{ name: string; status: string; startedAt: string }>
  holdUntil: string | null
}

/** Returns what a deployment waits for, since when and until when; null: for nobody. */
export function waitingOf({
  status,
  steps,
  holdUntil
}: Held): { for: WaitingFor; since: string; until: string | null } | null {
  const step = steps.find(({ name, status }) => name === 'confirm' && status === 'running')
  if (status !== 'running' || step === undefined) return null
  return { for: 'confirmation', since: step.startedAt, until: holdUntil }
}

/** Returns the path of the page on which it is decided, below the address of the server. */
export function decisionPath({ deployId, rolloutId }: { deployId: string | null; rolloutId: string | null }): string {
  const [room, id] = rolloutId === null ? ['deployments', deployId ?? ''] : ['rollouts', rolloutId]
  return `${room}/${encodeURIComponent(id)}`
}

/**
 * Returns the status that people see. A post-deploy script that failed in the background does not change the status of its
 * deployment, and yet it is no success.
 */
export function shownStatus<S extends string>(status: S, backgroundFailed: boolean | undefined): S | 'failed' {
  return status === 'success' && backgroundFailed === true ? 'failed' : status
}
