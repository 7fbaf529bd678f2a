/*
 * `make soak`: `node soak.js <minutes> <name>…` runs the programs of test/soak, two at a time, each for its share of the
 * time (`node <name>.js <seconds>`); test/soak/thorough.ts takes the time that it needs. Their output is printed when they
 * end; the last line has the form of the last line of a test run. A program that prints no TAP is one check: its exit
 * code. One that does not end is ended, and has failed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Programs that run at once: they wait more than they compute. */
const lanes = 2
/** For what a program does before and after its share of the time. The thorough run takes what it needs. */
const graceSeconds = 1800
const thoroughSeconds = 5400

interface Counted {
  pass: number
  fail: number
}

/** Returns tap's total of a program's output, or the lines outside of subtests. */
export function countChecks(lines: readonly string[], code: number | null): Counted {
  const told = lines
    .map(line => /^# \{ total: \d+(?:, pass: (\d+))?(?:, fail: (\d+))?/.exec(line))
    .filter(match => match !== null)
    .at(-1)
  const own = (pattern: RegExp): number => lines.filter(line => pattern.test(line)).length
  const pass = told === undefined ? own(/^ok\b/) : Number(told[1] ?? 0)
  const fail = told === undefined ? own(/^not ok\b/) : Number(told[2] ?? 0)
  if (pass + fail === 0) return code === 0 ? { pass: 1, fail: 0 } : { pass: 0, fail: 1 }
  return { pass, fail: code === 0 || fail > 0 ? fail : 1 }
}

async function run(name: string, seconds: number): Promise<Counted & { code: number | null }> {
  const program = fileURLToPath(new URL(`../soak/${name}.js`, import.meta.url))
  const child = spawn(process.execPath, [program, String(seconds)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close') as Promise<[number | null]>
  const lines: string[] = []
  const limitSeconds = name === 'thorough' ? thoroughSeconds : seconds + graceSeconds
  const limit = setTimeout(() => child.kill('SIGKILL'), limitSeconds * 1000)
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
  }
  const [code] = await ended
  clearTimeout(limit)
  process.stdout.write([`# soak: ${name}, ${seconds} s`, ...lines, ''].join('\n'))
  return { ...countChecks(lines, code), code }
}

async function main([minutes = '', ...names]: string[]): Promise<void> {
  const seconds = Math.floor((Number(minutes) * 60) / names.length)
  if (!(seconds >= 1))
    throw new Error(`"${minutes}" minutes for ${names.length} programs: at least a second each is needed`)
  const all: Counted = { pass: 0, fail: 0 }
  const failed: string[] = []
  // The longest one first.
  const waiting = [...names].sort((a, b) => Number(b === 'thorough') - Number(a === 'thorough'))
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const { pass, fail, code } = await run(name, seconds)
      all.pass += pass
      all.fail += fail
      if (fail > 0) failed.push(`not ok - soak ${name}: ${fail} failed, exit code ${code ?? 'none, it was ended'}`)
    }
  }
  await Promise.all(Array.from({ length: lanes }, work))
  // Where a log that was cut still shows them: a program without TAP has no line of its own that says so.
  for (const line of failed) process.stdout.write(`${line}\n`)
  process.stdout.write(`# { total: ${all.pass + all.fail}, pass: ${all.pass}, fail: ${all.fail} }\n`)
  if (all.fail > 0) process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2))
