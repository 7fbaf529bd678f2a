/* Searching an access log against grep and ripgrep. SEARCH_MIB=1024 for the size of the issue. */
import { spawn, spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSearches } from '../../lib/logs/search.js'
import { compare, machine } from '../support/bench.js'

const mib = Number(process.env['SEARCH_MIB'] ?? 256)
const directory = join(dirname(fileURLToPath(import.meta.url)), '../../bench-search')
const path = join(directory, 'access.log')
mkdirSync(directory, { recursive: true })
writeLog()
const handle = await open(path)
const { size } = await handle.stat()
const contents = { handle, reach: async () => ({ size, isWhole: true }) }
const searches = createSearches()
const never = new AbortController().signal
let peakBytes = 0
const memory = setInterval(() => { peakBytes = Math.max(peakBytes, process.memoryUsage.rss()) }, 20)

async function ours(query: { q: string; isRegex: boolean; ignoresCase: boolean }): Promise<number> {
  const from = performance.now()
  let hits = 0
  await searches.run(contents, { ...query, maxHits: 5000, context: 0, fromOffset: 0, toOffset: undefined, signal: never },
    async ({ event }) => { if (event === 'hit') hits++ })
  expected ??= hits
  if (hits !== expected) throw new Error(`${hits} hits, not ${expected}`)
  return performance.now() - from
}

function rival(program: string, args: string[]) {
  if (spawnSync(program, ['--version']).error) return null
  return async (): Promise<number> => {
    const from = performance.now()
    // Counted through a pipe: grep stops at the first hit when its output is /dev/null.
    const child = spawn(program, [...args, path], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, LC_ALL: 'C.UTF-8' } })
    let lines = 0
    for await (const chunk of child.stdout) for (const byte of chunk as Buffer) if (byte === 10) lines++
    if (expected !== undefined && lines !== expected) throw new Error(`${program}: ${lines} lines, not ${expected}`)
    return performance.now() - from
  }
}

let expected: number | undefined
console.log(`${machine()}; ${mib} MiB`)
for (const [name, q, isRegex, ignoresCase, flags] of [
  ['literal', 'upstream timed out', false, false, ['-F']],
  ['literal, ignoring case', 'UPSTREAM TIMED OUT', false, true, ['-F', '-i']],
  ['regular expression with a literal', 'upstream \\w+ed out', true, false, ['-E']],
  ['regular expression without one', '" (501|503) [0-9]+ "', true, false, ['-E']],
  ['regular expression, classes only', '[0-9]{3}ms [A-Z]{4}$', true, false, ['-E']]
] as const) {
  expected = undefined
  await compare({
    name,
    unit: 'ms',
    contestants: {
      svc: () => ours({ q, isRegex, ignoresCase }),
      grep: rival('grep', [...flags, q]),
      ripgrep: rival('rg', [...flags.filter(flag => flag !== '-E'), q])
    },
    target: 'ours ÷ grep below 1, ours ÷ ripgrep at most 2.5'
  })
}
clearInterval(memory)
console.log(`\nhighest RSS ${Math.round(peakBytes / 1024 / 1024)} MiB (target: under 120)`)
await handle.close()
rmSync(directory, { recursive: true })

function writeLog(): void {
  let state = 42
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return (state >> 8) % below
  }
  const two = (n: number): string => String(n).padStart(2, '0')
  const paths = ['/', '/api/projects', '/static/app.js', '/favicon.ico', '/api/logs/dep_', '/img/logo.png']
  const agents = [
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36', 'curl/8.5.0',
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'
  ]
  const fd = openSync(path, 'w')
  for (let written = 0; written < mib * 1024 * 1024;) {
    let text = ''
    for (let line = 0; line < 5000; line++) {
      const status = random(3000) === 0 ? [501, 503][random(2)] : [200, 200, 304, 404, 500][random(5)]
      const end = random(40_000) === 0 ? ' upstream timed out' : random(30_000) === 0 ? ` ${100 + random(900)}ms SLOW` : ''
      text += `${random(256)}.${random(256)}.${random(256)}.${random(256)} - - [21/Nov/2026:${two(random(24))}:${two(random(60))}:${two(random(60))} +0000] ` +
        `"GET ${paths[random(6)]}?id=${random(1e6)} HTTP/1.1" ${status} ${random(50_000)} "-" "${agents[random(3)]}"${end}\n`
    }
    written += writeSync(fd, text)
  }
  closeSync(fd)
}
