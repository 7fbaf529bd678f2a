import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { oneLine } from '../base/one-line.js'
import { Refusal } from '../base/refusal.js'
import { bunVersion } from '../base/runtime.js'
import { formatBytes } from '../base/size.js'
import { readConfig } from '../config/home.js'
import type { Home } from '../config/home.js'
import type { HealthDetail, HealthReport } from '../model/health.js'
import type { TerminalAvailability } from '../model/terminal.js'
import { readDisk } from '../system/disk.js'
import type { Client } from './client.js'

/** One thing that was looked at. */
export interface Finding {
  check: string
  result: 'pass' | 'warning' | 'failure'
  /** What is so. */
  detail: string
  /** What to do next; null where nothing need be done. */
  advice: string | null
}

const minNodeMajor = 18 // §4.13
const maxNamesTold = 10
const warnPercent = 85
const failPercent = 95 // §4.8
/** An unhealthy server answers in the same shape (§4.8). */
const unhealthy = 503

const pass = (check: string, detail: string): Finding => ({ check, result: 'pass', detail, advice: null })
const warning = (check: string, detail: string, advice: string): Finding => ({ check, result: 'warning', detail, advice })
const failure = (check: string, detail: string, advice: string): Finding => ({ check, result: 'failure', detail, advice })

/** This machine: the runtime, the data directory, its disk, the global configuration (§4.13). */
export async function diagnoseLocally(home: Home): Promise<Finding[]> {
  const files = [await checkHome(home), await checkDisk(home), await checkConfig(home), ...(await checkKey(home))]
  return [checkRuntime(process.versions.node, bunVersion), ...files]
}

/** Pure. `bun`: the version of Bun, which `version` of Node it means to be. */
export function checkRuntime(version: string, bun?: string): Finding {
  const major = Number(version.split('.')[0])
  if (bun !== undefined) return pass('Bun', `v${bun}, in place of Node.js v${version}`)
  if (major >= minNodeMajor) return pass('Node.js', `v${version}`)
  return failure('Node.js', `v${version} is too old`, `Install Node.js ${minNodeMajor} or newer`)
}

async function checkHome(home: Home): Promise<Finding> {
  const { directory } = home
  const check = 'Data directory'
  const found = await stat(directory).catch(() => null)
  if (found === null) return warning(check, `${directory} is not there yet`, '"svc serve", or "svc config:set", creates it')
  const mayUse = await access(directory, constants.R_OK | constants.W_OK | constants.X_OK).then(() => true, () => false)
  if (!found.isDirectory() || !mayUse) {
    const why = found.isDirectory() ? 'cannot be used by this user' : 'is no directory'
    return failure(check, `${directory} ${why}`, `Give it to this user (chown, chmod u+rwx "${directory}"), or choose another with SVC_HOME`)
  }
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  if (othersRead) return warning(check, `${directory} can be read by other users`, `chmod 700 "${directory}"`)
  return pass(check, directory)
}

async function checkDisk(home: Home): Promise<Finding> {
  const { freeBytes, percentUsed } = await readDisk(home.directory)
  if (freeBytes === null || percentUsed === null) {
    return warning('Disk', 'its space is not known', 'Look at it by hand (df), or run this once the data directory is there')
  }
  return diskFinding('Disk', { freeBytes, percentUsed })
}

function diskFinding(check: string, { freeBytes, percentUsed }: { freeBytes: number | null; percentUsed: number }): Finding {
  const detail = `${percentUsed} % used${freeBytes === null ? '' : `, ${formatBytes(freeBytes)} free`}`
  const advice = 'Make room: lower keep_archives, remove old archives and logs, or enlarge the disk'
  if (percentUsed >= failPercent) return failure(check, detail, advice)
  return percentUsed >= warnPercent ? warning(check, detail, advice) : pass(check, detail)
}

async function checkConfig(home: Home): Promise<Finding> {
  const check = 'Global configuration'
  const found = await stat(home.configFile).catch(() => null)
  if (found === null) return warning(check, `${home.configFile} is not there yet`, '"svc config:set serverUrl <url> --global" creates it')
  try {
    await readConfig(home)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return failure(check, error.message, 'Put the file right by hand; docs/configuration.md describes it')
  }
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  if (othersRead) return failure(check, `${home.configFile} holds tokens, and other users can read it`, `chmod 600 "${home.configFile}"`)
  return pass(check, home.configFile)
}

/** The key of the secrets: nothing is said of one that is not there, since there may be no secrets. */
async function checkKey({ variablesKey }: Home): Promise<Finding[]> {
  const check = 'Key of the secrets'
  const found = await stat(variablesKey).catch(() => null)
  if (found === null) return []
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  return [othersRead ? failure(check, `other users can read ${variablesKey}`, `chmod 600 "${variablesKey}"`) : pass(check, variablesKey)]
}

const adviceFor = {
  starting: 'It puts right what was cut short; wait for it: svc health --wait 60',
  unhealthy: 'Read on in detail (with the admin token), and in the log of the server'
}

/** The server: the public probe and, with a token, what it knows of itself. `whyNone` says why there is no token. */
export async function diagnoseServer(client: Client, token: { from: string } | null, whyNone: string): Promise<Finding[]> {
  const check = 'Server'
  const probe = await attempt(() => client.json<HealthReport>({ path: '/api/health', alsoStatus: unhealthy }))
  if (probe instanceof Refusal) return [failure(check, probe.message, serverAdvice(probe, client.address))]
  const version =
    probe.status === 'ok'
      ? pass(check, `${client.address} answers, version ${probe.version}`)
      : failure(check, `${client.address} answers that it is ${probe.status}`, adviceFor[probe.status])
  if (token === null) {
    return [version, warning('Server, in detail', `not looked at: ${whyNone}`, 'Give it with --token or SVC_TOKEN')]
  }
  const detail = await attempt(() => client.json<HealthDetail>({ path: '/api/health/detail', alsoStatus: unhealthy }))
  if (!(detail instanceof Refusal)) {
    const terminal = await attempt(() => client.json<TerminalAvailability>({ path: '/api/terminal/available' }))
    return [version, ...detailFindings(detail), ...secretFindings(detail), ...nameFindings(detail, client.address), ...(terminal instanceof Refusal ? [] : [terminalFinding(terminal)])]
  }
  const isToken = detail.kind === 'unauthorized' || detail.kind === 'forbidden'
  const advice = isToken ? `Correct the token (it came from ${token.from}); "svc admin reset-password" on the server sets another` : serverAdvice(detail, client.address)
  return [version, failure('Server, in detail', detail.message, advice)]
}

function serverAdvice(refusal: Refusal, address: string): string {
  if (refusal.code === 'not_svc' || refusal.code === 'http_404') return 'Correct the address: the path prefix of the server (serve --base) is part of it'
  return `Start the server ("svc serve"), open ${address} from this machine, or correct the address with --server`
}

/** Pure: by the rules of §4.8, and what an operator would want to hear besides. */
export function detailFindings(detail: HealthDetail): Finding[] {
  const { db, disk, kiteHome, deploy, runtime } = detail
  return [
    pass('Server\'s runtime', `${runtime.name} ${runtime.version}`),
    db.ok ? pass('Database', `${db.latencyMs} ms`) : failure('Database', `${db.path} cannot be written`, 'Make room on its disk, look at the log of the server, and restart it'),
    kiteHome.writable && kiteHome.tmpWritable
      ? pass('Server\'s data directory', kiteHome.path)
      : failure('Server\'s data directory', `${kiteHome.path} cannot be written`, 'Give it to the user the server runs as'),
    disk.percentUsed === null ? pass('Server\'s disk', 'not told') : diskFinding('Server\'s disk', { ...disk, percentUsed: disk.percentUsed }),
    deploy.last5[0]?.status === 'failed'
      ? warning('Deployments', `the last one failed (${oneLine(deploy.last5[0].projectName)})`, `svc logs ${deploy.last5[0].id}`)
      : pass('Deployments', deploy.successRate === null ? 'none yet' : `${deploy.successRate} % of the last ${deploy.last5.length} succeeded`)
  ]
}

/** Pure. A server that people reach by a name should know it; at an address of this machine nobody else can be meant. */
export function nameFindings({ hostNamesChecked }: HealthDetail, address: string): Finding[] {
  const check = 'Host names'
  const { hostname } = new URL(address)
  if (hostNamesChecked === undefined || /^(localhost|127\..*|\[::1\])$/.test(hostname)) return []
  if (hostNamesChecked) return [pass(check, 'requests for other names are refused')]
  const advice = `Start the server with SVC_PUBLIC_URL, or set allowed_hosts to "${hostname}"`
  return [warning(check, 'the server answers to every name, also to one that another site points at it', advice)]
}

/** Pure. Secrets that cannot be read make every deployment fail that runs a script with them. */
export function secretFindings({ secrets }: HealthDetail): Finding[] {
  const check = 'Secrets of projects'
  if (secrets === undefined) return []
  if (secrets.ok) return [pass(check, 'can be read')]
  const names = secrets.unreadable.map(oneLine)
  const told = names.slice(0, maxNamesTold).join(', ') + (names.length > maxNamesTold ? `, and ${names.length - maxNamesTold} more` : '')
  const advice = 'Restore variables.key in the data directory from a backup, or set these secrets again'
  return [failure(check, `cannot be read: ${oneLine(secrets.why ?? 'the reason is not known')} (${told})`, advice)]
}

/** Pure. Nothing else needs it, so it is no failure; and where somebody has switched it off, nothing is amiss. */
export function terminalFinding({ available, reason = '', code }: TerminalAvailability): Finding {
  if (available) return pass('Terminal', 'can be opened')
  if (code !== 'terminal_unavailable') return pass('Terminal', reason)
  return warning('Terminal', reason, 'Do as it says where a terminal is wanted; everything else works without it')
}

async function attempt<T>(work: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}
