/*
 * Ends processes that svc has started: a process group, and also the processes that have left it (setsid(2)). The
 * latter are found by a variable in their environment, which they have inherited.
 *
 * First SIGTERM is sent once to the current processes. A handler may clean up; processes that it starts for that get no
 * SIGTERM. After the grace period SIGKILL is sent repeatedly, because a killed process may just have forked. The work
 * is done when several checks in a row find no process. Without /proc, only the group is known.
 */
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { isDenied } from '../../base/errors.js'

/** The processes to stop, and how. */
interface StopOptions extends Wanted {
  /** Time between SIGTERM and SIGKILL. */
  graceMs: number
}

export interface Stopped {
  /** Number of processes that were found and have ended. Without /proc, the group counts as one. */
  endedCount: number
  /** The numbers of the processes that do not end. */
  left: number[]
  /** Like `isPartial` of `Found`: there may be more processes. */
  isPartial: boolean
}

/** Default time between SIGTERM and SIGKILL. */
export const defaultGraceMs = 5_000
/** Interval between two checks. It grows with a share of the elapsed time, so that checking stays cheap. */
const lookMs = 20
const lookShare = 0.25
const maxLookMs = 250
/**
 * Number of checks in a row that must find nothing: a process cannot be recognized while it executes another program
 * (execve(2)).
 */
const emptyLooks = 3
/** Maximum number of checks after SIGKILL that find a process. */
const maxKills = 50
/** Maximum number of intervals that `killProcess` waits. */
const maxEndTries = 500

const isWindows = process.platform === 'win32'

/** Stops processes. Resolves when none is left, or when the remaining ones do not end after SIGKILL. */
export async function stopProcesses(options: StopOptions): Promise<Stopped> {
  if (isWindows) return stopTree(options)
  const { group, marker, graceMs } = options
  const start = performance.now()
  const seen = new Set<number>()
  let found = await look(options, null)
  ask(group, found.processes)
  for (let empty = 0, kills = 0; kills <= maxKills; ) {
    for (const { pid } of found.processes) seen.add(pid)
    empty = found.processes.length === 0 ? empty + 1 : 0
    if (empty === (marker === undefined ? 1 : emptyLooks)) break
    const passedMs = performance.now() - start
    await sleep(
      passedMs >= graceMs ? lookMs : Math.min(Math.max(passedMs * lookShare, lookMs), maxLookMs, graceMs - passedMs)
    )
    const isOver = performance.now() - start >= graceMs
    found = await look(options, isOver ? 'SIGKILL' : null)
    if (isOver) kills++
  }
  return {
    endedCount: seen.size - found.processes.length,
    left: found.processes.map(({ pid }) => pid),
    isPartial: found.isPartial
  }
}

/** Whether some of the processes may remain. */
export function mayRemain({ left, isPartial }: Stopped): boolean {
  return left.length > 0 || isPartial
}

/**
 * Ends one process with SIGKILL if it still runs, and is what is expected. Throws if it does not end because it is
 * blocked in a system call.
 */
export async function killProcess(one: FoundProcess, expected: ExpectedProcess): Promise<void> {
  for (let tries = 0; isStillRunning(one) && isExpected(one.pid, expected); tries++) {
    if (tries === maxEndTries) throw new Error(`The process ${one.pid} does not end`)
    if (!signal(one.pid, 'SIGKILL')) return
    await sleep(lookMs)
  }
}

/** Finds all processes once, and sends a signal to each. */
async function look(wanted: Wanted, name: 'SIGKILL' | null): Promise<Found> {
  const { group, marker } = wanted
  const isGroupThere = group !== null && signal(-group, 0)
  if (!isGroupThere && marker === undefined) return { processes: [], isPartial: false }
  if (isGroupThere && name !== null && !includesThisProcess(group)) signal(-group, name)
  const found = await findProcesses(wanted, ({ pid }) => name !== null && signal(pid, name))
  return found ?? { processes: isGroupThere ? [{ pid: -group, startedAt: '' }] : [], isPartial: false }
}

/**
 * Sends SIGTERM: to the whole group at once, so that no process in it has time to fork, and to the others one by one.
 */
function ask(group: number | null, processes: readonly FoundProcess[]): void {
  const isWhole = group !== null && processes.length > 0 && !includesThisProcess(group)
  if (isWhole) signal(-group, 'SIGTERM')
  for (const { pid, startedAt } of processes) {
    const stat = statOf(pid)
    if (stat?.startedAt === startedAt && !(isWhole && stat.group === group)) signal(pid, 'SIGTERM')
  }
}

/** Signals a process, or a group by its negative number. Returns whether it existed. */
function signal(id: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, name)
  } catch {
    return false
  }
}

function stopTree({ group }: StopOptions): Stopped {
  const words = ['/pid', String(group), '/t', '/f']
  if (group !== null) spawn('taskkill', words, { env: {}, stdio: 'ignore', windowsHide: true }).on('error', () => {})
  return { endedCount: group === null ? 0 : 1, left: [], isPartial: false }
}

/*
 * Information of the system about the processes on this machine, and about itself: proc(5). Without /proc (macOS,
 * Windows) nothing is known, which every function here reports.
 */

/** A process that cannot be confused with another one that has the same number later, or after another boot. */
export interface KnownProcess {
  pid: number
  /** Start time in clock ticks since boot. */
  startedAt: string
  /** The kernel's id of this boot. */
  bootId: string
}

/** The fields of /proc/<pid>/stat that svc uses. */
interface ProcessStat {
  parent: number
  group: number
  session: number
  startedAt: string
  /** Whether a signal has stopped it, or another process traces it. */
  isStopped: boolean
}

/**
 * A variable in the environment of a program, and of everything that it starts, with a value that no other program has.
 */
export interface Marker {
  name: string
  value: string
}

/** The processes to find. */
interface Wanted {
  /** A process group, or null for none. */
  group: number | null
  marker?: Marker | undefined
}

/** A process that is running now. */
export type FoundProcess = Omit<KnownProcess, 'bootId'>

/** The processes that were found. */
interface Found {
  /** Processes of the group, or with the marker. Never contains this process or its ancestors. */
  processes: FoundProcess[]
  /** Whether /proc hides processes, or their environments, from svc, although it runs as root. */
  isPartial: boolean
}

/** What a process must be for svc to end it. */
interface ExpectedProcess {
  /** The users that it may run as. */
  uids: readonly number[]
  /** A word of its command line. */
  program: string
}

/** Number of processes that are examined in one turn of the event loop. */
const sliceLength = 64
const maxRounds = 100

/** Returns a process by its number, or null if there is none, it has ended, or the system does not report it. */
export function knownProcess(pid: number): KnownProcess | null {
  const stat = statOf(pid)
  return stat === null ? null : { pid, startedAt: stat.startedAt, bootId: bootId() }
}

/** Whether a process still runs. A zombie, which has ended but was not reaped by its parent, does not. */
export function isStillRunning({ pid, startedAt }: FoundProcess): boolean {
  return statOf(pid)?.startedAt === startedAt
}

/** Whether a process runs as one of these users, and was started with this word. */
function isExpected(pid: number, { uids, program }: ExpectedProcess): boolean {
  const [, ...ids] = /^Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$/m.exec(textOf(`/proc/${pid}/status`)) ?? []
  const isOfUser = ids.length > 0 && ids.every(id => uids.includes(Number(id)))
  return isOfUser && textOf(`/proc/${pid}/cmdline`).split('\0').includes(program)
}

/** Returns the kernel's id of this boot, or '' if the system does not report it. */
export function bootId(): string {
  return textOf('/proc/sys/kernel/random/boot_id').trim()
}

/** Returns the size of a socket's send buffer in bytes (socket(7)), or 0 if the system does not report it. */
export function socketBufferBytes(): number {
  return Number(textOf('/proc/sys/net/core/wmem_default'))
}

/** Returns the processes of a session (setsid(2)), including its leader, in whatever process group they are. */
export function membersOf(session: number): number[] {
  return listPids().filter(pid => statOf(pid)?.session === session)
}

/**
 * Examines all processes, and then those that have started in the meantime, until there are none or the maximum number
 * of rounds is reached: a process that forks and ends must not escape the search. Calls `onFound` immediately for each.
 * Returns null if there is no /proc.
 */
async function findProcesses(wanted: Wanted, onFound?: (one: FoundProcess) => unknown): Promise<Found | null> {
  if (listPids().length === 0) return null
  const found: Found = { processes: [], isPartial: false }
  const seen = thisProcessAndAncestors()
  for (let round = 0; round < maxRounds; round++) {
    const fresh = listPids().filter(pid => !seen.has(pid))
    if (fresh.length === 0) break
    for (const [index, pid] of fresh.entries()) {
      seen.add(pid)
      const what = examine(pid, wanted)
      if (what === 'hidden') found.isPartial = true
      if (what !== null && what !== 'hidden') {
        found.processes.push(what)
        onFound?.(what)
      }
      if (index % sliceLength === sliceLength - 1) await turn()
    }
  }
  return found
}

/**
 * Returns null for a process that is not wanted, and `hidden` if the system does not show its environment although svc
 * is root.
 */
function examine(pid: number, { group, marker }: Wanted): FoundProcess | 'hidden' | null {
  const stat = statOf(pid)
  if (stat === null) return null
  const one = { pid, startedAt: stat.startedAt }
  if (stat.group === group) return one
  if (marker === undefined) return null
  try {
    const entries = `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`
    return entries.includes(`\0${marker.name}=${marker.value}\0`) ? one : null
  } catch (error) {
    return process.geteuid?.() === 0 && isDenied(error) ? 'hidden' : null
  }
}

/** Whether this process or an ancestor belongs to a group: svc may have been started by a script. */
function includesThisProcess(group: number): boolean {
  return [...thisProcessAndAncestors()].some(pid => statOf(pid)?.group === group)
}

function thisProcessAndAncestors(): Set<number> {
  const line = new Set<number>()
  for (let at = process.pid; at > 0 && !line.has(at); at = statOf(at)?.parent ?? 0) line.add(at)
  return line
}

/** Returns the stat of a process, or null if there is none, it has ended, or the system does not report it. */
export function statOf(pid: number): ProcessStat | null {
  // `pid (name) state parent group session …`. The name may contain anything, even parentheses.
  const text = textOf(`/proc/${pid}/stat`)
  const [state = '', parent, group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (state === '' || state === 'Z' || state === 'X') return null
  // The start time is field 22.
  const [startedAt = '', isStopped] = [rest[15], state === 'T' || state === 't']
  return { parent: Number(parent), group: Number(group), session: Number(session), startedAt, isStopped }
}

function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter(name => /^\d+$/.test(name))
      .map(Number)
  } catch {
    return []
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
