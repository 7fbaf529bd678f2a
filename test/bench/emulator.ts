/*
 * The terminal's emulator (issue: at least 20 MB/s in Node). 32 MiB a round, in pieces as the socket brings them; every
 * contestant keeps 10,000 lines. xterm is told to answer when it has parsed everything.
 */
import { readFileSync } from 'node:fs'
import { createEmulator } from '../../www/terminal/emulator.js'
import { compare, machine, sized } from '../support/bench.js'
import { rivals } from '../support/rivals.js'

const columns = 120
const rows = 40
const historyLines = 10_000
const pieceLength = 64 * 1024
const totalLength = sized(32 * 1024 * 1024, 256 * 1024)
const mebibyte = 1024 * 1024

interface Xterm {
  write(text: string, done: () => void): void
  dispose(): void
}
type XtermModule = { Terminal: new (options: object) => Xterm }

const screens = new URL('../../../test/fixtures/screens/', import.meta.url)

/** Inputs by kind. */
const workloads: Record<string, string> = {
  'lines of a log': Array.from(
    { length: 2000 },
    (_, index) =>
      `2026-03-01T12:00:${String(index % 60).padStart(2, '0')}.123Z info  request ${index} GET /assets/app-${index * 7919}.js 200 12ms\r\n`
  ).join(''),
  'a coloured listing': Array.from(
    { length: 2000 },
    (_, index) =>
      `-rw-r--r-- 1 \x1b[33mroot\x1b[0m \x1b[2m${index * 37}\x1b[0m \x1b[01;3${index % 8}mfile-${index}\x1b[0m.txt \x1b[38;5;${index % 256}m●\x1b[m\r\n`
  ).join(''),
  'Chinese text': '部署已完成,日志在下面。'.repeat(40_000),
  'full screens of mc': readFileSync(new URL('mc.in', screens), 'utf8')
}

function pieces(text: string): string[] {
  const whole = text.repeat(Math.ceil(pieceLength / text.length))
  const cut: string[] = []
  for (let at = 0; at + pieceLength <= whole.length; at += pieceLength) cut.push(whole.slice(at, at + pieceLength))
  return cut
}

async function rate(text: string, write: (piece: string) => unknown, finish: () => Promise<void>): Promise<number> {
  const round = pieces(text)
  const bytesOfRound = Buffer.byteLength(round.join(''))
  let bytes = 0
  const startedAt = process.hrtime.bigint()
  while (bytes < totalLength) {
    for (const piece of round) write(piece)
    bytes += bytesOfRound
    await finish()
  }
  return bytes / mebibyte / (Number(process.hrtime.bigint() - startedAt) / 1e9)
}

function ours(text: string): Promise<number> {
  const emulator = createEmulator({ columns, rows, historyLines })
  return rate(
    text,
    piece => emulator.write(piece),
    async () => {}
  )
}

async function xterm({ Terminal }: XtermModule, text: string): Promise<number> {
  const terminal = new Terminal({ cols: columns, rows, scrollback: historyLines, allowProposedApi: true })
  const figure = await rate(
    text,
    piece => terminal.write(piece, () => {}),
    () => new Promise(done => terminal.write('', done))
  )
  terminal.dispose()
  return figure
}

console.log(machine())
const load = await rivals({ '@xterm/headless': '5.5.0' })
const module = load === null ? null : await load<XtermModule>('@xterm/headless')
for (const [name, text] of Object.entries(workloads)) {
  await compare({
    name: `emulator: ${name}`,
    unit: 'MB/s',
    contestants: { ours: () => ours(text), '@xterm/headless': module && (() => xterm(module, text)) },
    target: 'at least 20 MB/s'
  })
}
