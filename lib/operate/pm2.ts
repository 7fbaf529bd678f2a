import { delimiter, dirname, join } from 'node:path'
import { type Clock, elapsedOf } from '../base/clock.js'
import { Refusal } from '../base/errors.js'
import { isListening } from '../base/socket-probe.js'
import type { Pm2Absence, Pm2App, Pm2Apps, Pm2Availability, Pm2Binding, Pm2Details } from '../model/machine.js'
import { runProcess } from '../core/proc/run.js'
import { userHome } from '../base/runtime.js'
import { isProgram } from '../base/files.js'
import { inheritedEnvironment } from '../core/proc/environment.js'

/** The processes of `pm2 jlist`, or the reason why there are none. */
export type Pm2Listing = { outcome: 'listed'; processes: Pm2Process[] } | { outcome: Pm2Absence; message: string }

/** The applications that PM2 runs. */
export type Pm2 = ReturnType<typeof createPm2>

const cacheMs = 1500 // §8
const listLimitMs = 5000
/** jlist prints each process with its whole environment, about 20 KiB. */
const maxListBytes = 16 * 1024 * 1024

interface Needs {
  clock: Clock
  environment: Environment
  find?: (environment: Environment) => Promise<string | null>
  limitMs?: number
}

/** Creates the view of the PM2 that belongs to this machine and user. */
export function createPm2({ clock, environment, find = findPm2, limitMs = listLimitMs }: Needs) {
  let cached: { listing: Pm2Listing; atMs: number } | undefined
  let asking: Promise<Pm2Listing> | undefined

  async function ask(): Promise<Pm2Listing> {
    const program = await find(environment)
    const listing = program === null ? missing : await listOf(program)
    cached = { listing, atMs: elapsedOf(clock) }
    return listing
  }

  /** Every command of pm2 starts a daemon if none runs, with the environment of svc and below it. Looking must not. */
  async function listOf(program: string): Promise<Pm2Listing> {
    const socket = daemonSocket(environment)
    if (await isListening(socket)) return runList(program, environment, limitMs)
    const message = `The PM2 daemon of this user is not running: nothing listens on "${socket}". Start an application with pm2`
    return { outcome: 'idle', message }
  }

  async function list(): Promise<Pm2Listing> {
    if (cached !== undefined && elapsedOf(clock) - cached.atMs < cacheMs) return cached.listing
    asking ??= ask().finally(() => (asking = undefined))
    return asking
  }

  return {
    /** Returns all processes. Results and failures are cached for 1.5 s; simultaneous calls share one child process. */
    list,

    /** Returns whether PM2 can be asked, or why not. */
    async available(): Promise<Pm2Availability> {
      const listing = await list()
      return { available: listing.outcome === 'listed', ...absenceOf(listing) }
    },

    /** Returns one entry for each application name; none and the reason if PM2 cannot be asked. */
    async apps(): Promise<Pm2Apps> {
      const listing = await list()
      return { apps: listing.outcome === 'listed' ? appsOf(listing.processes) : [], ...absenceOf(listing) }
    },

    /** Returns the application with this name. Null means that the project is not linked to one. */
    async binding(name: string | null): Promise<Pm2Binding> {
      if (name === null) return { bound: false, message: notLinked }
      const listing = await list()
      const { outcome: reason } = listing
      // §4.11 says so if PM2 is not installed.
      if (reason === 'missing') return { bound: false, message: listing.message }
      if (reason !== 'listed') return { bound: true, found: null, name, reason, message: listing.message }
      return bindingOf(name, listing.processes, clock.now())
    },

    /** Returns the log files of all instances of an application. Refuses (`conflict`) no_pm2_logs. */
    async logFiles(name: string | null): Promise<string[]> {
      if (name === null) throw noLogs(notLinked)
      const listing = await list()
      if (listing.outcome !== 'listed') throw noLogs(listing.message)
      const files = logFilesOf(name, listing.processes)
      if (files.length === 0) throw noLogs(`PM2 has no application "${name}" that writes log files`)
      return files
    }
  }
}

function absenceOf(listing: Pm2Listing): Omit<Pm2Apps, 'apps'> {
  return listing.outcome === 'listed' ? {} : { reason: listing.outcome, message: listing.message }
}

const notLinked = 'The project is not linked to a PM2 application'

function noLogs(why: string): Refusal {
  return new Refusal('conflict', 'no_pm2_logs', `Cannot add the log files of the PM2 application: ${why}`)
}

const missing: Pm2Listing = {
  outcome: 'missing',
  message: 'PM2 not found on PATH or in the directories of npm. Install it with "npm install -g pm2"'
}

async function runList(program: string, environment: Environment, timeoutMs: number): Promise<Pm2Listing> {
  const failed = (why: string): Pm2Listing => ({ outcome: 'failed', message: `"${program} jlist" ${why}` })
  const stop = new AbortController()
  const pieces: string[] = []
  let bytes = 0
  const ended = await runProcess({
    command: pm2Command(program, ['jlist']),
    cwd: '/',
    env: pm2Environment(environment),
    stderr: 'ignored',
    timeoutMs,
    graceMs: 500,
    signal: stop.signal,
    onLine(line) {
      bytes += line.length
      if (bytes > maxListBytes) stop.abort()
      else pieces.push(line)
    }
  })
  if (ended.reason === 'timeout') return failed(`did not answer within ${timeoutMs / 1000} s`)
  if (ended.reason === 'cancelled') return failed(`printed more than ${maxListBytes} bytes`)
  if (ended.reason === 'spawn_failed') return failed(`could not be started: ${ended.error}`)
  if (ended.exitCode !== 0) return failed(`ended with ${ended.signal ?? `exit code ${ended.exitCode}`}`)
  // The list is one long line, which arrives in pieces: join them without a separator.
  const processes = parseJlist(pieces.join(''))
  return processes === null ? failed('printed no list') : { outcome: 'listed', processes }
}

/** Returns one application for each name, in the order of their ids. Pure. */
export function appsOf(processes: readonly Pm2Process[]): Pm2App[] {
  const names = [...new Set([...processes].sort(byId).map(({ name }) => name))]
  return names.map(name => {
    const instances = instancesOf(name, processes)
    return { name, pmId: (instances[0] as Pm2Process).pmId, status: statusOf(instances) }
  })
}

/**
 * Returns the view of one application. CPU, memory and restarts of a cluster are summed; the uptime is the longest; the
 * rest comes from the first instance. Pure.
 */
export function bindingOf(name: string, processes: readonly Pm2Process[], nowMs: number): Pm2Binding {
  const instances = instancesOf(name, processes)
  const [first] = instances
  if (first === undefined) return { bound: true, found: false, name }
  const sum = (count: (instance: Pm2Process) => number): number =>
    instances.reduce((total, instance) => total + count(instance), 0)
  return {
    bound: true,
    found: true,
    name,
    pmId: first.pmId,
    pid: instances.find(({ pid }) => pid !== null)?.pid ?? null,
    status: statusOf(instances),
    uptimeMs: Math.max(
      ...instances.map(({ startedAtMs }) => (startedAtMs === null ? 0 : Math.max(0, nowMs - startedAtMs)))
    ),
    restarts: sum(({ restarts }) => restarts),
    unstableRestarts: sum(({ unstableRestarts }) => unstableRestarts),
    cpuPercent: Math.round(sum(({ cpuPercent }) => cpuPercent) * 10) / 10,
    memoryBytes: sum(({ memoryBytes }) => memoryBytes),
    execMode: first.execMode,
    instances: instances.length,
    errorLogPath: first.errorLogPath,
    outLogPath: first.outLogPath,
    createdAt: first.createdAt
  }
}

/** Returns the log files of an application, each once. Pure. */
function logFilesOf(name: string, processes: readonly Pm2Process[]): string[] {
  const paths = instancesOf(name, processes).flatMap(({ outLogPath, errorLogPath }) => [outLogPath, errorLogPath])
  return [...new Set(paths)].filter((path): path is string => path !== null && path !== '/dev/null')
}

function instancesOf(name: string, processes: readonly Pm2Process[]): Pm2Process[] {
  return processes.filter(found => found.name === name).sort(byId)
}

/** Returns `errored` if any instance is, else `online` if any is, else the status of the first. */
function statusOf(instances: readonly Pm2Process[]): string {
  const statuses = instances.map(({ status }) => status)
  return ['errored', 'online'].find(status => statuses.includes(status)) ?? (statuses[0] as string)
}

function byId(a: Pm2Process, b: Pm2Process): number {
  return a.pmId - b.pmId
}

/** One process of `pm2 jlist`: the fields that svc reads. Its environment, which contains secrets, is left out. */
export interface Pm2Process extends Omit<Pm2Details, 'bound' | 'found' | 'uptimeMs' | 'instances'> {
  /** Milliseconds since 1970; null while it does not run. */
  startedAtMs: number | null
}

/** How often the parser may read the whole text. */
const maxLooks = 16

/**
 * Returns the list that `pm2 jlist` printed, or null if there is none. pm2 may print other text before and after it,
 * for example `[PM2] Spawning PM2 daemon`. The list is the last array of objects, or else an empty array.
 */
export function parseJlist(text: string): Pm2Process[] | null {
  let found: Pm2Process[] | null = null
  // Searching the end of an unclosed bracket reads to the end of the text, so the total is limited.
  let left = maxLooks * text.length
  for (let at = text.search(/\[\s*[{\]]/); at !== -1 && left > 0; ) {
    const end = endOfArray(text, at)
    left -= (end ?? text.length) - at
    const list = end === null ? null : listOf(text.slice(at, end))
    if (list !== null && (list.length > 0 || found === null)) found = list
    const next = list === null || end === null ? at + 1 : end
    const step = text.slice(next).search(/\[\s*[{\]]/)
    at = step === -1 ? -1 : next + step
  }
  return found
}

/** Returns the offset after the array at `from`, or null if it has no end. Brackets in strings are ignored. */
function endOfArray(text: string, from: number): number | null {
  const tokens = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|[[\]]/g
  tokens.lastIndex = from
  let depth = 0
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    if (token[0] === '[') depth++
    else if (token[0] === ']' && --depth === 0) return tokens.lastIndex
  }
  return null
}

function listOf(text: string): Pm2Process[] | null {
  try {
    const list = JSON.parse(text) as unknown[]
    return list.every(isEntry) ? list.map(read) : null
  } catch {
    return null
  }
}

interface Entry {
  name: string
  pm_id: unknown
  pid?: unknown
  pm2_env?: Record<string, unknown>
  monit?: { memory?: unknown; cpu?: unknown }
}

function isEntry(value: unknown): value is Entry {
  return typeof value === 'object' && value !== null && typeof (value as Entry).name === 'string' && 'pm_id' in value
}

function read({ name, pm_id, pid, pm2_env: env = {}, monit = {} }: Entry): Pm2Process {
  const status = text(env['status']) ?? 'unknown'
  return {
    name,
    pmId: number(pm_id) ?? -1,
    pid: number(pid) || null,
    status,
    startedAtMs: status === 'online' ? number(env['pm_uptime']) : null,
    restarts: number(env['restart_time']) ?? 0,
    unstableRestarts: number(env['unstable_restarts']) ?? 0,
    cpuPercent: number(monit.cpu) ?? 0,
    memoryBytes: number(monit.memory) ?? 0,
    execMode: text(env['exec_mode']) ?? 'unknown',
    errorLogPath: text(env['pm_err_log_path']),
    outLogPath: text(env['pm_out_log_path']),
    createdAt: number(env['created_at'])
  }
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

const isWindows = process.platform === 'win32'

/** Returns the directories in which npm, pnpm and others install programs. The PATH of a service is often minimal. */
export function commonPlaces(environment: Environment): string[] {
  const home = environment['HOME'] || userHome()
  const { NPM_CONFIG_PREFIX: prefix, NVM_BIN: nvm, PNPM_HOME: pnpm, APPDATA: appData } = environment
  const inHome = ['.npm-global/bin', '.local/bin', '.yarn/bin', '.bun/bin', '.volta/bin', '.local/share/pnpm', 'n/bin']
  return [
    dirname(process.execPath),
    ...(prefix ? [join(prefix, 'bin')] : []),
    ...[nvm, pnpm].filter((place): place is string => Boolean(place)),
    ...(isWindows && appData ? [join(appData, 'npm')] : []),
    '/usr/local/bin',
    '/usr/bin',
    '/opt/homebrew/bin',
    ...inHome.map(place => join(home, place))
  ]
}

/** Returns the path of the pm2 program, from PATH or a common directory, or null if there is none. */
export async function findPm2(environment: Environment, places = commonPlaces(environment)): Promise<string | null> {
  const onPath = (environment['PATH'] ?? environment['Path'] ?? '').split(delimiter).filter(Boolean)
  for (const directory of [...onPath, ...places]) {
    const path = join(directory, isWindows ? 'pm2.cmd' : 'pm2')
    if (await isProgram(path)) return path
  }
  return null
}

/** Returns the socket, or the Windows pipe, on which the daemon of PM2 listens. */
function daemonSocket(environment: Environment): string {
  if (isWindows) return '\\\\.\\pipe\\rpc.sock'
  return join(environment['PM2_HOME'] || join(environment['HOME'] || userHome(), '.pm2'), 'rpc.sock')
}

/** Returns the words that start a pm2 command. Windows runs a `.cmd` file only through its shell. */
export function pm2Command(program: string, words: readonly string[]): string[] {
  if (!isWindows) return [program, ...words]
  return ['cmd', '/d', '/s', '/c', `"${[program, ...words].map(word => `"${word}"`).join(' ')}"`]
}

/**
 * Returns the environment of pm2: what every program inherits, and a PATH on which its first line, `env node`, finds
 * this Node. The daemon that pm2 may start keeps this environment and passes it to all its processes.
 */
export function pm2Environment(environment: Environment): Environment {
  const path = [environment['PATH'] ?? environment['Path'], dirname(process.execPath)].filter(Boolean).join(delimiter)
  return { ...inheritedEnvironment(environment), PATH: path, NO_COLOR: '1' }
}
