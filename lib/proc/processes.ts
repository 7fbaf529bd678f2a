/*
 * What the system says of the processes on this machine: proc(5). Where there is no /proc (macOS, Windows), nothing is
 * known, and every function here says so.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

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
  /** Of the group, or with the marker. This process and those above it are never among them, */
  processes: FoundProcess[]
  /** even if they are of the group. */
  holdsUs: boolean
  /** /proc hides processes, or their environments, from svc, although it runs as root. */
  isPartial: boolean
}

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

/** The processes of a session (setsid(2)), its leader among them, whatever process group they are in. */
export function membersOf(session: number): number[] {
  try {
    return pidsOf(readdirSync('/proc')).filter(pid => statOf(pid)?.session === session)
  } catch {
    return []
  }
}

/** Looks through all processes once; null: there is no /proc. */
export async function findProcesses({ group, marker }: Wanted): Promise<Found | null> {
  const pids = pidsOf(await readdir('/proc').catch(() => []))
  if (pids.length === 0) return null
  const own = lineOf(process.pid)
  const isRoot = process.geteuid?.() === 0
  const holdsUs = [...own].some(pid => statOf(pid)?.group === group)
  const found: Found = { processes: [], holdsUs, isPartial: isRoot && !pids.includes(1) }
  for (const pid of pids.filter(pid => !own.has(pid))) {
    const stat = parseStat(await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => ''))
    if (stat === null) continue
    const mark = stat.group === group ? 'there' : await lookForMarker(pid, marker)
    if (mark === 'there') found.processes.push({ pid, startedAt: stat.startedAt })
    if (mark === 'hidden' && isRoot) found.isPartial = true
  }
  return found
}

async function lookForMarker(pid: number, marker: Marker | undefined): Promise<'there' | 'not there' | 'hidden'> {
  if (marker === undefined) return 'not there'
  try {
    return `\0${await readFile(`/proc/${pid}/environ`, 'latin1')}`.includes(`\0${marker.name}=${marker.value}\0`) ? 'there' : 'not there'
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EACCES' || code === 'EPERM' ? 'hidden' : 'not there'
  }
}

/** A process and those above it. */
function lineOf(pid: number): Set<number> {
  const line = new Set<number>()
  for (let at = pid; at > 0 && !line.has(at); at = statOf(at)?.parent ?? 0) line.add(at)
  return line
}

/** null: there is no such process, it has ended, or the system does not say. */
export function statOf(pid: number): ProcessStat | null {
  return parseStat(textOf(`/proc/${pid}/stat`))
}

/** `pid (name) state parent group session …`; the name may hold anything, parentheses too. null: it has ended. */
function parseStat(text: string): ProcessStat | null {
  const [state = '', parent, group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (state === '' || state === 'Z' || state === 'X') return null
  // The start is field 22.
  return { parent: Number(parent), group: Number(group), session: Number(session), startedAt: rest[15] ?? '' }
}

function pidsOf(names: string[]): number[] {
  return names.filter(name => /^\d+$/.test(name)).map(Number)
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
