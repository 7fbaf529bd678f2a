import { countOf } from '../../base/text.js'
import type { AccessReport } from '../../model/access-report.js'
import { namesOf, withoutUser } from '../../model/project-users.js'
import type { Finding } from './finding.js'

const check = 'Users of projects'

/**
 * Returns the finding about projects that have no user of their own: a push of a script to one runs with the rights of svc. Pure.
 */
export function userFindings({ projects }: Pick<AccessReport, 'projects'>): Finding[] {
  if (projects.length === 0) return []
  const without = withoutUser(projects)
  const open = without.filter(({ clientScripts }) => clientScripts)
  if (without.length === 0) {
    return [
      { check, result: 'pass', detail: `${countOf(projects.length, 'project')} with a user of its own`, advice: null }
    ]
  }
  const detail = `without runAs: ${namesOf(without)}`
  if (open.length === 0)
    return [{ check, result: 'pass', detail: `${detail}; no push may contain scripts`, advice: null }]
  const advice =
    'A deploy token runs commands as the user of svc there. Run svc as root ("svc systemd --multi-user") and set a user ' +
    'with "svc projects set <project> --run-as <user>", or reject scripts with --client-scripts false'
  return [{ check, result: 'warning', detail, advice }]
}
