/*
 * Asks a site for names that begin with `.svc-`, which the web server must refuse (docs/maintenance.md). Nothing is
 * placed in the target, so an answer proves a rule only if it differs from the answer for another missing name.
 */
import { randomBytes } from 'node:crypto'
import { type HttpAnswer, probeHttp } from '../../probe/probe.js'
import type { Finding } from './finding.js'

/** Where doctor may connect to. */
export interface ExposureOptions {
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
    return { check, result: 'warning', detail: `${site} not checked: ${failed.error}`, advice }
  }
  const otherStatus = statusOf(other)
  const statuses = own.map(statusOf)
  const advice = 'Add the rule of docs/maintenance.md to the web server: it answers 403'
  if (statuses.every(status => refusing.has(status) && status !== otherStatus)) {
    return { check, result: 'pass', detail: `${site} refuses names that begin with .svc-`, advice: null }
  }
  const answers = [...new Set(statuses)].join(' and ')
  const same = `${site} answers ${answers} for names that begin with .svc-, and ${otherStatus} for another missing name`
  return { check, result: 'warning', detail: `cannot tell whether they are refused: ${same}`, advice }
}

function statusOf(answer: HttpAnswer): number {
  return 'status' in answer ? answer.status : 0
}
