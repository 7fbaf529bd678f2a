import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { cellsOfCapture, cellsOfEmulator, differences } from '../../support/screen-cells.js'
import { noTmux, revealing, startTmux } from '../../support/tmux.js'
import { createEmulator, type Emulator } from '../../../www/terminal/emulator.js'

/*
 * Recordings of real programs, made by test/support/record-screens.ts. After each key, every cell of the emulator's
 * screen must be the same as in tmux, including its colours and attributes.
 */

const fixtures = new URL('../../../../test/fixtures/screens/', import.meta.url)
const size = { columns: 80, rows: 24 }

interface Recording {
  name: string
  bytes: Buffer
  screens: Array<{ offset: number; x: number; y: number; text: string; revealed: string }>
}

const recordings = readdirSync(fixtures)
  .filter(name => name.endsWith('.in'))
  .map(name => name.slice(0, -3))
  .map(readRecording)

function readRecording(name: string): Recording {
  const read = (extension: string): Buffer => readFileSync(new URL(`${name}.${extension}`, fixtures))
  const parts = read('text')
    .toString()
    .split(/^=== (\d+) bytes, cursor (\d+) (\d+)\n/m)
    .slice(1)
  const screens = Array.from({ length: parts.length / 4 }, (_, index) => {
    const [offset, x, y, both] = parts.slice(index * 4, index * 4 + 4) as [string, string, string, string]
    const [text, revealed] = both.split('=== revealed\n') as [string, string]
    return { offset: Number(offset), x: Number(x), y: Number(y), text, revealed }
  })
  return { name, bytes: read('in'), screens }
}

/** Writes bytes in pieces of `length` bytes. */
function feed(emulator: Emulator, decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array, length: number): void {
  for (let at = 0; at < bytes.length; at += length) {
    emulator.write(decoder.decode(bytes.subarray(at, at + length), { stream: true }))
  }
}

t.test('has a recording of each program', async t => {
  t.same(recordings.map(({ name }) => name).sort(), ['htop', 'less', 'mc', 'tmux', 'top', 'vim'])
})

for (const { name, bytes, screens } of recordings) {
  for (const length of [65_536, 7]) {
    t.test(`${name} in pieces of ${length} bytes: each cell is as in tmux`, async t => {
      const emulator = createEmulator(size)
      const decoder = new TextDecoder()
      let from = 0
      for (const { offset, x, y, text } of screens) {
        feed(emulator, decoder, bytes.subarray(from, offset), length)
        from = offset
        t.same(differences(cellsOfEmulator(emulator), cellsOfCapture(text, size)), [], `after ${offset} bytes`)
        // While a wrap is pending, tmux reports the cursor one column further.
        t.same([Math.min(emulator.cursor.x, size.columns - 1), emulator.cursor.y], [Math.min(x, size.columns - 1), y])
      }
    })
  }
}

for (const { name, bytes, screens } of recordings) {
  t.test(`${name}: erased cells have the colours of tmux`, async t => {
    for (const { offset, revealed } of screens) {
      const emulator = createEmulator(size)
      emulator.write(Buffer.concat([bytes.subarray(0, offset), revealing(size)]).toString())
      t.same(differences(cellsOfEmulator(emulator), cellsOfCapture(revealed, size)), [], `after ${offset} bytes`)
    }
  })
}

t.test('matches the screens of a running tmux', { skip: noTmux }, async t => {
  const tmux = await startTmux(size)
  t.teardown(() => tmux.close())
  for (const { name, bytes, screens } of recordings) {
    const { offset } = screens[Math.floor(screens.length / 2)] as { offset: number }
    const emulator = createEmulator(size)
    feed(emulator, new TextDecoder(), bytes.subarray(0, offset), 4096)
    const { text } = await tmux.screenOf(bytes.subarray(0, offset))
    t.same(differences(cellsOfEmulator(emulator), cellsOfCapture(text, size)), [], name)
  }
})
