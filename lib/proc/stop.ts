/*
 * Ends processes that svc has started: a process group, and also the processes that have left it (setsid(2)). The
 * latter are found by a variable in their environment, which they have inherited.
 *
 * First SIGTERM is sent once to the current processes. A handler may clean up; processes that it starts for that get no
 * SIGTERM. After the grace period SIGKILL is sent repeatedly, because a killed process may just have forked. The work
 * is done when several checks in a row find no process. Without /proc, only the group is known.
 */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  findProcesses,
  includesThisProcess,
  isExpected,
  isStillRunning,
  statOf,
  type ExpectedProcess,
  type Found,
  type FoundProcess,
  type Wanted
} from './processes.js'

/** The processes to stop, and how. */
export interface StopOptions extends Wanted {
  /** Time between SIGTERM and SIGKILL. */
  graceMs: number
}

/** The result of stopping. */
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
