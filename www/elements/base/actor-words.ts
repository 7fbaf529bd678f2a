/* Labels of the actors of audit entries and locks. Pure. */

/** Labels of the actors. `name` is the name of a project, if the actor has one. English; passed to t(). */
export const actorWords: Readonly<Record<string, string>> = {
  admin: 'Admin',
  'global-deploy': 'Global deploy token',
  local: 'Operator on the machine',
  anonymous: 'Unknown actor',
  system: 'svc itself'
}
