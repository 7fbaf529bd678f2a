/*
 * What the system says of the processes on this machine, and of itself: proc(5). Where there is no /proc (macOS, Windows), nothing is
 * known, and every function here says so.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'

/** A process that is never mistaken for another one, which has its number later or after another boot. */
export interface KnownProcess {
  pid: number
  /** In clock ticks since boot. */
  startedAt: string
  /** The kernel's own name of this boot. */
  bootId: string
}

/** What `stat` says of a process. */
export interface ProcessStat {
  parent: number
  group: number
  session: number
  startedAt: string
}

/** A variable in the environment of a program, and of all that it starts, with a value that no other program has. */
export interface Marker {
  name: string
  value: string
}

/** What to look for. */
export interface Wanted {
  /** A process group; null: none. */
  group: number | null
  marker?: Marker | undefined
}

/** A process of this moment. */
export type FoundProcess = Omit<KnownProcess, 'bootId'>

export interface Found {
  /** Of the group, or with the marker. This process and those above it are never among them. */
  processes: FoundProcess[]
  /** /proc hides processes, or their environments, from svc, although it runs as root. */
  isPartial: boolean
}

/** Processes that are looked at in one turn of the event loop. */
const sliceLength = 64
const maxRounds = 100

/** A process by its number; null: there is none, it has ended, or the system does not say. */
export function knownProcess(pid: number): KnownProcess | null {
  const stat = statOf(pid)
  return stat === null ? null : { pid, startedAt: stat.startedAt, bootId: bootId() }
}

/** Whether a process still runs. One that has ended, and was not yet taken note of by its parent, does not. */
export function isStillRunning({ pid, startedAt }: FoundProcess): boolean {
  return statOf(pid)?.startedAt === startedAt
}

/** Of this boot; empty where the system does not say. */
export function bootId(): string {
  return textOf('/proc/sys/kernel/random/boot_id').trim()
}

/** What a socket holds that nobody reads (socket(7)); 0 where the system does not say. */
export function socketBufferBytes(): number {
  return Number(textOf('/proc/sys/net/core/wmem_default'))
}

/** The processes of a session (setsid(2)), its leader among them, whatever process group they are in. */
export function membersOf(session: number): number[] {
  return listPids().filter(pid => statOf(pid)?.session === session)
}

/**
 * Looks through all processes, and then through those that have begun meanwhile, until there are none or many rounds have
 * passed: a process that forks and ends is not to run ahead of the look. `onFound` is called at once. null: there is no /proc.
 */
export async function findProcesses(wanted: Wanted, onFound?: (one: FoundProcess) => unknown): Promise<Found | null> {
  if (listPids().length === 0) return null
  const found: Found = { processes: [], isPartial: false }
  const seen = ownLine()
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

/** null: it is none of the wanted. `hidden`: the system does not show its environment, although this is root. */
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
    const { code } = error as NodeJS.ErrnoException
    return process.geteuid?.() === 0 && (code === 'EACCES' || code === 'EPERM') ? 'hidden' : null
  }
}

/** Whether this process, or one above it, is of a group: svc may have been started by a script. */
export function holdsUs(group: number): boolean {
  return [...ownLine()].some(pid => statOf(pid)?.group === group)
}

/** This process and those above it. */
function ownLine(): Set<number> {
  const line = new Set<number>()
  for (let at = process.pid; at > 0 && !line.has(at); at = statOf(at)?.parent ?? 0) line.add(at)
  return line
}

/** null: there is no such process, it has ended, or the system does not say. */
export function statOf(pid: number): ProcessStat | null {
  // `pid (name) state parent group session …`; the name may hold anything, parentheses too.
  const text = textOf(`/proc/${pid}/stat`)
  const [state = '', parent, group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (state === '' || state === 'Z' || state === 'X') return null
  // The start is field 22.
  return { parent: Number(parent), group: Number(group), session: Number(session), startedAt: rest[15] ?? '' }
}

function listPids(): number[] {
  try {
    return readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(Number)
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
