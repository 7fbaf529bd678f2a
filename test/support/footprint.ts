import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Inside } from './inside.js'
import type { ServeProcess } from './serve-process.js'
import { until } from './until.js'

/** The resources that a server uses at one moment. */
export interface Footprint extends Inside {
  /** The targets of its descriptors with their counts: a path, `socket`, `pipe`. */
  descriptors: Record<string, number>
  rssBytes: number
  threads: number
  /** Names of its child processes. */
  children: string[]
  /** Files in `tmp/` of the data directory. */
  temporary: string[]
  /** Staging directories in targets and beside them. */
  staging: string[]
}

/** Measures a server that was started with `inside.js`. `sites` is the directory above its targets. Linux only. */
export async function footprintOf(server: ServeProcess, sites: string): Promise<Footprint> {
  const inside = await askInside(server)
  return {
    ...inside,
    descriptors: descriptorsOf(server.pid),
    ...sizesOf(server.pid),
    children: childrenOf(server.pid),
    temporary: readdirSync(join(server.home, 'tmp')).sort(),
    staging: readdirSync(sites, { recursive: true, encoding: 'utf8' })
      .filter(path => /(^|\/)\.svc-[^/]*$/.test(path))
      .sort()
  }
}

/** Returns the size of a process as the system sees it. */
export function sizesOf(pid: number): Pick<Footprint, 'rssBytes' | 'threads'> {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const figure = (name: string): number => Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(status)?.[1])
  return { rssBytes: figure('VmRSS') * 1024, threads: figure('Threads') }
}

async function askInside(server: ServeProcess): Promise<Inside> {
  const before = server.said().length
  process.kill(server.pid, 'SIGUSR2')
  return JSON.parse(await until(() => /^inside: (.*)\n/m.exec(server.said().slice(before))?.[1])) as Inside
}

function descriptorsOf(pid: number): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
    const leadsTo = leadOf(`/proc/${pid}/fd/${descriptor}`)
    if (leadsTo !== null) counts[leadsTo] = (counts[leadsTo] ?? 0) + 1
  }
  return counts
}

/** Returns null if it was closed meanwhile. */
function leadOf(path: string): string | null {
  try {
    return readlinkSync(path).replace(/:\[\d+\]$/, '')
  } catch {
    return null
  }
}

function childrenOf(pid: number): string[] {
  const pids = readdirSync(`/proc/${pid}/task`).flatMap(task =>
    read(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean)
  )
  return pids.map(child => read(`/proc/${child}/comm`).trim()).sort()
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
