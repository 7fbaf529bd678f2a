import { readFileSync } from 'node:fs'

/** Returns the memory of a process that is in use, in millions of bytes. Read from /proc, so on Linux only. */
export function residentMb(pid: number): number {
  return (Number(/VmRSS:\s*(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / 1e6
}

/** Returns the processor time of a process, threads that have ended included; in ticks of 10 ms. */
export function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}
