import { t } from '../../words/t.js'

/* Labels of the actors of audit entries and locks. Pure. */

/** Labels of the actors. English; passed to t(). */
const actorWords: Readonly<Record<string, string>> = {
  admin: 'Admin',
  'global-deploy': 'Global deploy token',
  local: 'Operator on the machine',
  anonymous: 'Unknown actor',
  system: 'svc itself'
}

const named = 'token:'

/** Returns the name of an actor: a label, the name of a named token, or the actor as it is. */
export function actorName(actor: string): string {
  const label = actorWords[actor]
  if (label !== undefined) return t(label)
  return actor.startsWith(named) ? actor.slice(named.length) : actor
}
