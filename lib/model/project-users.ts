import { oneLine } from '../base/text.js'

const maxNamesShown = 10

/** Returns the projects that have no user of their own: a push of a script to one runs commands with the rights of svc. */
export function withoutUser<P extends { runAs: string | null }>(projects: readonly P[]): P[] {
  return projects.filter(({ runAs }) => runAs === null)
}

/** Returns the names of projects for a sentence, and the number of those that are not named: `"a", "b", and 3 more`. */
export function namesOf(projects: ReadonlyArray<{ name: string }>): string {
  const shown = projects.slice(0, maxNamesShown).map(({ name }) => `"${oneLine(name)}"`)
  const more = projects.length - shown.length
  return `${shown.join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

/** Returns the warning of a server that can give each project a user, or null if each has one. */
export function warningOfUsers(projects: ReadonlyArray<{ name: string; runAs: string | null }>): string | null {
  const without = withoutUser(projects)
  if (without.length === 0) return null
  return (
    `Deployments of these projects run commands as root, because they have no user of their own: ${namesOf(without)}. ` +
    'Set one with "svc projects set <project> --run-as <user>", and create new ones with "svc projects create --user"'
  )
}
