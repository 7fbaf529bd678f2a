import { Refusal } from '../base/errors.js'

/**
 * The states of a record that a client expects (`If-Match`); undefined accepts any. For most records, the state is
 * their `updatedAt`.
 */
export interface Seen {
  seen?: readonly string[] | undefined
}

/** Refuses the change of a record whose state is not one that the client expects: 412 `changed_since`. */
export function checkSeen({ seen }: Seen, state: string, what: string): void {
  if (seen === undefined || seen.includes(state)) return
  throw new Refusal('precondition', 'changed_since', `${what} has changed since the state in If-Match. Read it again`)
}
