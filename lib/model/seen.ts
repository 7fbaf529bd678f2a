import { Refusal } from '../base/refusal.js'

/** The states of a record that a client expects (`If-Match`); undefined: any. Of most records, a state is its `updatedAt`. */
export interface Seen {
  seen?: readonly string[] | undefined
}

/** Refuses a change of a record that is not in a state that the client expects: 412 `changed_since`. */
export function checkSeen({ seen }: Seen, state: string, what: string): void {
  if (seen === undefined || seen.includes(state)) return
  throw new Refusal('precondition', 'changed_since', `${what} has changed since the state that If-Match names: read it again`)
}
