/*
 * Ending processes that svc has started: a process group, and with it those that have left it (setsid(2)), which are
 * found by an entry of their environment that they have inherited.
 *
 * First SIGTERM, once, for the processes that are there: a handler may clean up, and what it starts for that is not asked to end. After
 * the grace SIGKILL, again and again, because what is killed may just have forked. All is over when a few looks in a row
 * find nobody. Where there is no /proc, only the group is known.
 */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { findProcesses, holdsUs, isStillRunning, statOf, type Found, type FoundProcess, type Wanted } from './processes.js'

export interface StopOptions extends Wanted {
  /** Between SIGTERM and SIGKILL. */
  graceMs: number
}

export interface Stopped {
  /** How many processes were found, and have ended; where there is no /proc, the group counts as one. */
  endedCount: number
  /** The numbers of those that do not end. */
  left: number[]
  /** As `Found` has it: there may be more. */
  isPartial: boolean
}

export const defaultGraceMs = 5_000
/** Between two looks; and a part of the time that has passed, so that looking costs little however long it takes. */
const lookMs = 20
const lookShare = 0.25
const maxLookMs = 250
/** So many looks in a row find nobody: a process cannot be known while it executes another program (execve(2)). */
const emptyLooks = 3
/** How often a look after SIGKILL may find somebody. */
const maxKills = 50
/** How long `killProcess` waits. */
const maxEndTries = 500

const isWindows = process.platform === 'win32'

/** Resolves when none of them is left, or those left do not end by SIGKILL. */
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
    await sleep(passedMs >= graceMs ? lookMs : Math.min(Math.max(passedMs * lookShare, lookMs), maxLookMs, graceMs - passedMs))
    const isOver = performance.now() - start >= graceMs
    found = await look(options, isOver ? 'SIGKILL' : null)
    if (isOver) kills++
  }
  return { endedCount: seen.size - found.processes.length, left: found.processes.map(({ pid }) => pid), isPartial: found.isPartial }
}

/** Whether something may be left of what was stopped. */
export function mayRemain({ left, isPartial }: Stopped): boolean {
  return left.length > 0 || isPartial
}

/** Ends one process by SIGKILL, if it still runs. Throws if it does not go: a system call that does not return holds it. */
export async function killProcess(one: FoundProcess): Promise<void> {
  for (let tries = 0; isStillRunning(one); tries++) {
    if (tries === maxEndTries) throw new Error(`The process ${one.pid} does not end`)
    if (!signal(one.pid, 'SIGKILL')) return
    await sleep(lookMs)
  }
}

/** Looks for all of them once, and sends a signal to each that is found. */
async function look(wanted: Wanted, name: 'SIGKILL' | null): Promise<Found> {
  const { group, marker } = wanted
  const isGroupThere = group !== null && signal(-group, 0)
  if (!isGroupThere && marker === undefined) return { processes: [], isPartial: false }
  if (isGroupThere && name !== null && !holdsUs(group)) signal(-group, name)
  const found = await findProcesses(wanted, ({ pid }) => name !== null && signal(pid, name))
  return found ?? { processes: isGroupThere ? [{ pid: -group, startedAt: '' }] : [], isPartial: false }
}

/** SIGTERM: the group at one go, so that none of it has the time to fork, and the others one by one. */
function ask(group: number | null, processes: readonly FoundProcess[]): void {
  const isWhole = group !== null && processes.length > 0 && !holdsUs(group)
  if (isWhole) signal(-group, 'SIGTERM')
  for (const { pid, startedAt } of processes) {
    const stat = statOf(pid)
    if (stat?.startedAt === startedAt && !(isWhole && stat.group === group)) signal(pid, 'SIGTERM')
  }
}

/** Signals a process, or a group by its negative number; whether anybody was there to be signalled. */
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
