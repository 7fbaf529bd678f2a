import { readFile } from 'node:fs/promises'
import { freemem, totalmem } from 'node:os'
import { runProcess } from '../proc/run.js'
import type { MemoryFigures } from '../model/machine.js'
import { percentOf } from './disk.js'

interface Measured {
  totalBytes: number
  freeBytes: number
  /** Null if the system reports free memory only. */
  availableBytes: number | null
}

const vmStatLimitMs = 2000

/** Returns the memory of the machine (§2.11). Used memory is the total minus the available memory. */
export async function readMemory(): Promise<MemoryFigures> {
  return memoryFigures(await measure())
}

async function measure(): Promise<Measured> {
  const unknown = { totalBytes: totalmem(), freeBytes: freemem(), availableBytes: null }
  if (process.platform === 'darwin') return { ...unknown, availableBytes: parseVmStat(await vmStat()) }
  if (process.platform !== 'linux') return unknown
  // Not os.freemem(): on Linux that is MemAvailable from Node 20 on.
  return parseMeminfo(await readFile('/proc/meminfo', 'utf8').catch(() => '')) ?? unknown
}

/** Returns the figures of §2.11. The available memory is at most the total. Pure. */
export function memoryFigures({ totalBytes, freeBytes, availableBytes }: Measured): MemoryFigures {
  const available = Math.min(availableBytes ?? freeBytes, totalBytes)
  const usedBytes = totalBytes - available
  return { totalBytes, freeBytes, availableBytes: available, usedBytes, percentUsed: percentOf(usedBytes, totalBytes) }
}

/**
 * Reads the text of /proc/meminfo (proc_meminfo(5)). Undefined without MemTotal or MemFree. MemAvailable exists since
 * Linux 3.14.
 */
export function parseMeminfo(text: string): Measured | undefined {
  const bytes = (name: string): number | null => {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)
    return found === null ? null : Number(found[1]) * 1024
  }
  const totalBytes = bytes('MemTotal')
  const freeBytes = bytes('MemFree')
  if (totalBytes === null || freeBytes === null) return undefined
  return { totalBytes, freeBytes, availableBytes: bytes('MemAvailable') }
}

/**
 * Reads the output of `vm_stat` (macOS) and returns the available bytes: free, speculative and inactive pages.
 * Purgeable pages are part of these. Null if the text has another form.
 */
export function parseVmStat(text: string): number | null {
  const pageBytes = Number(/page size of (\d+) bytes/.exec(text)?.[1])
  const pages = ['free', 'inactive', 'speculative'].map(kind =>
    Number(new RegExp(`^Pages ${kind}:\\s+(\\d+)\\.`, 'm').exec(text)?.[1])
  )
  const total = pages.reduce((sum, count) => sum + count, 0) * pageBytes
  return Number.isFinite(total) ? total : null
}

async function vmStat(): Promise<string> {
  const lines: string[] = []
  await runProcess({
    command: ['/usr/bin/vm_stat'],
    cwd: '/',
    env: { LC_ALL: 'C' },
    timeoutMs: vmStatLimitMs,
    onLine: line => void lines.push(line)
  })
  return lines.join('\n')
}
