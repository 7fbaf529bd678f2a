/*
 * `make bench`: `node bench-all.js <name>…` runs the benches one after the other, and ends with one table: work, rival, ratio,
 * goal, met. A bench that fails does not keep the others from running; the exit code is 1 then.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchRow } from './bench.js'

/** Returns the lines of the table. */
export function tableOf(rows: readonly BenchRow[]): string[] {
  const cells = [
    ['work', 'rival', 'ours ÷ rival', 'goal', 'met'],
    ...rows.map(({ work, rival, ratio, goal, isMet }) => [
      work,
      rival,
      Number(ratio.toPrecision(3)).toString(),
      goal,
      isMet ? 'yes' : 'no'
    ])
  ]
  const widths = (cells[0] ?? []).map((_, at) => Math.max(...cells.map(line => (line[at] ?? '').length)))
  return cells.map(line =>
    line
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd()
  )
}

function main(names: readonly string[]): void {
  const directory = mkdtempSync(join(tmpdir(), 'svc-bench-all-'))
  const path = join(directory, 'rows')
  writeFileSync(path, '')
  const failed: string[] = []
  for (const name of names) {
    console.log(`\n# ${name}`)
    const program = fileURLToPath(new URL(`../bench/${name}.js`, import.meta.url))
    const { status, signal } = spawnSync(process.execPath, [program], {
      stdio: 'inherit',
      env: { ...process.env, BENCH_TABLE: path }
    })
    if (status !== 0) failed.push(`${name} (${signal ?? `exit code ${status}`})`)
  }
  const rows = readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as BenchRow)
  rmSync(directory, { recursive: true, force: true })
  console.log(`\n${tableOf(rows).join('\n')}`)
  if (failed.length === 0) return
  console.log(`\nfailed: ${failed.join(', ')}`)
  process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2))
