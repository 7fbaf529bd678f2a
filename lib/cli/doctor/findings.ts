import { randomBytes } from 'node:crypto'
import { countOf, oneLine } from '../../base/text.js'
import { type AccessReport, type ReportedToken, type TokenAdvice, unusedDays } from '../../model/access.js'
import type { ListedNode } from '../../model/node.js'
import { sharedNames, namesOf, withoutUser } from '../../model/project.js'
import { type HttpAnswer, probeHttp } from '../../http/outgoing/probe.js'

/** The result of one check. */
export interface Finding {
  check: string
  result: 'pass' | 'warning' | 'failure'
  /** What was found. */
  detail: string
  /** What to do; null if nothing has to be done. */
  advice: string | null
}

/** Returns the finding of a check that has passed. */
export const pass = (check: string, detail: string): Finding => ({ check, result: 'pass', detail, advice: null })
export const warning = (check: string, detail: string, advice: string): Finding => {
  return { check, result: 'warning', detail, advice }
}
export const failure = (check: string, detail: string, advice: string): Finding => {
  return { check, result: 'failure', detail, advice }
}

const maxNamesShown = 10

/** Returns a warning if several projects have one name, which no command can mean then. Pure. */
export function sharedNameFindings({ projects }: Pick<AccessReport, 'projects'>): Finding[] {
  const advice = 'Commands take their ids. Give each another name: svc projects set <id> --name <name>'
  return sharedNames(projects).map(({ name, ids }) =>
    warning('Names of projects', `"${oneLine(name)}" is the name of ${ids.join(', ')}`, advice)
  )
}

const userCheck = 'Users of projects'

/**
 * Returns the finding about projects that have no user of their own: a push of a script to one runs with the rights of svc. Pure.
 */
export function userFindings({ projects }: Pick<AccessReport, 'projects'>): Finding[] {
  if (projects.length === 0) return []
  const without = withoutUser(projects)
  const open = without.filter(({ clientScripts }) => clientScripts)
  if (without.length === 0) return [pass(userCheck, `${countOf(projects.length, 'project')} with a user of its own`)]
  const detail = `without runAs: ${namesOf(without)}`
  if (open.length === 0) return [pass(userCheck, `${detail}; no push may contain scripts`)]
  const advice =
    'A deploy token runs commands as the user of svc there. Run svc as root ("svc systemd --multi-user") and set a user ' +
    'with "svc projects set <project> --run-as <user>", or reject scripts with --client-scripts false'
  return [warning(userCheck, detail, advice)]
}

const tokenCheck = 'Named tokens'

/** Returns the findings about named tokens: those that expire soon, are unused, or have an old secret. Pure. */
export function tokenFindings({ tokens, rotateDays }: Pick<AccessReport, 'tokens' | 'rotateDays'>): Finding[] {
  const advised = (wanted: TokenAdvice) => tokens.filter(({ advice }) => advice.includes(wanted))
  const rotate = 'Replace the secret with "svc token rotate <name>", which can keep the old one valid for a day'
  const oldSecret = ({ secretDays }: ReportedToken) =>
    `has a secret of ${countOf(secretDays, 'day')} (token_rotate_days is ${rotateDays})`
  const revoke = 'Revoke it with "svc token revoke <name>" if nobody needs it'
  const findings = [
    ...tokenFinding(advised('expires_soon'), ({ daysLeft }) => `expires in ${countOf(daysLeft, 'day')}`, rotate),
    ...tokenFinding(advised('unused'), () => `was not used for ${unusedDays} days`, revoke),
    ...tokenFinding(advised('rotate'), oldSecret, rotate)
  ]
  if (findings.length > 0 || tokens.length === 0) return findings
  return [pass(tokenCheck, `${tokens.length} valid`)]
}

function tokenFinding(
  tokens: readonly ReportedToken[],
  fact: (token: ReportedToken) => string,
  advice: string
): Finding[] {
  if (tokens.length === 0) return []
  return [warning(tokenCheck, firstOf(tokens.map(token => `"${oneLine(token.name)}" ${fact(token)}`)), advice)]
}

const fleetCheck = 'Fleet'

/** Returns the findings about nodes: those that are not connected, and those whose files are not as rolled out. Pure. */
export function fleetFindings(nodes: readonly ListedNode[]): Finding[] {
  if (nodes.length === 0) return []
  const lost = nodes.filter(({ isConnected, isDrained }) => !isConnected && !isDrained)
  const drifted = nodes.filter(({ placements }) => placements.some(({ isDrifted }) => isDrifted))
  const outdated = nodes.filter(({ isOutdated }) => isOutdated)
  const shared = nodes.filter(({ sharedSince }) => sharedSince)
  const rows: Array<[readonly ListedNode[], what: string, advice: string]> = [
    [
      shared,
      'two machines use the identity of one node, which gets no orders',
      'Stop one of them. To make it a node of its own, see "Two machines with one identity" in docs/fleet.md'
    ],
    [outdated, 'older agents, which do not notice recorded orders', 'Upgrade svc there, and restart the agent'],
    [lost, 'not connected', 'Start the agent there ("svc agent"), or drain or forget the node with "svc fleet"'],
    [drifted, 'not as rolled out', 'Look at it with "svc fleet node <name>"; the next push replaces the files']
  ]
  const findings = rows
    .filter(([found]) => found.length > 0)
    .map(([found, what, advice]) =>
      warning(fleetCheck, `${what}: ${firstOf(found.map(({ name }) => oneLine(name)))}`, advice)
    )
  if (findings.length > 0) return findings
  const connected = nodes.filter(({ isConnected }) => isConnected).length
  return [pass(fleetCheck, `${connected} of ${countOf(nodes.length, 'node')} connected`)]
}

function firstOf(words: readonly string[]): string {
  const more = words.length - maxNamesShown
  return words.slice(0, maxNamesShown).join(', ') + (more > 0 ? `, and ${more} more` : '')
}

/*
 * Asks a site for names that begin with `.svc-`, which the web server must refuse (docs/maintenance.md). Nothing is
 * placed in the target, so an answer proves a rule only if it differs from the answer for another missing name.
 */

/** Where doctor may connect to. */
interface ExposureOptions {
  /** The setting `gate_hosts`. */
  hosts: readonly string[]
  signal: AbortSignal
}

/** The beginnings of the names of svc's directories in targets. */
const ownPrefixes = ['.svc-staging-', '.svc-displaced-']
const timeoutMs = 10_000
/** Statuses that refuse a path. */
const refusing = new Set([403, 404, 410])

/** Asks the site at an address, and returns the finding. */
export async function askForOwnNames(site: string, options: ExposureOptions): Promise<Finding> {
  const random = randomBytes(8).toString('hex')
  const base = site.replace(/[?#][^]*$/, '').replace(/(?<!\/)\/*$/, '/')
  const ask = (name: string) => probeHttp({ ...options, url: `${base}${name}`, readsBody: false, timeoutMs })
  const other = await ask(`svc-none-${random}/a`)
  const own: HttpAnswer[] = []
  for (const prefix of 'error' in other ? [] : ownPrefixes) own.push(await ask(`${prefix}${random}/a`))
  return exposureFinding(site, own, other)
}

/** Returns the finding about the answers for own names, and for another name that does not exist. Pure. */
export function exposureFinding(site: string, own: readonly HttpAnswer[], other: HttpAnswer): Finding {
  const check = 'Names of svc'
  const failed = [other, ...own].find(answer => 'error' in answer)
  if (failed !== undefined && 'error' in failed) {
    const advice = 'Give an address of this machine, or add the host to the setting gate_hosts'
    return warning(check, `${site} not checked: ${failed.error}`, advice)
  }
  const otherStatus = statusOf(other)
  const statuses = own.map(statusOf)
  const advice = 'Add the rule of docs/maintenance.md to the web server: it answers 403'
  if (statuses.every(status => refusing.has(status) && status !== otherStatus))
    return pass(check, `${site} refuses names that begin with .svc-`)
  const answers = [...new Set(statuses)].join(' and ')
  const same = `${site} answers ${answers} for names that begin with .svc-, and ${otherStatus} for another missing name`
  return warning(check, `cannot tell whether they are refused: ${same}`, advice)
}

function statusOf(answer: HttpAnswer): number {
  return 'status' in answer ? answer.status : 0
}
