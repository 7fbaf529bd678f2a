import t from 'tap'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  joinScripted,
  parseScripted,
  readScripted,
  withScripted,
  writeScripted
} from '../../../lib/core/install/scripted-file.js'
import type { EarlierFile, ManifestLine, ScriptedLine } from '../../../lib/model/manifest.js'

const digest = (digit: string): string => digit.repeat(64)
const file = (path: string, digit: string) => ({ path, size: 1, mode: 0o100644, sha256: digest(digit), mtimeMs: 1 })
const earlier = (digit: string): EarlierFile => ({ size: 1, mode: 0o100644, sha256: digest(digit), mtimeMs: 0 })

async function* each<T>(lines: readonly T[]): AsyncGenerator<T> {
  yield* lines
}

t.test('writes and reads lines', async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-scripted-'))
  const path = join(directory, 'x.scripted')
  const lines: ScriptedLine[] = [file('a', '1'), { removed: 'b/ü\\n' }]
  t.match(await readScripted(path).next(), { done: true }, 'there is no file')
  await writeScripted(path, lines)
  const found: ScriptedLine[] = []
  for await (const line of readScripted(path)) found.push(line)
  t.strictSame(found, lines)
  t.strictSame([...parseScripted(readFileSync(path, 'utf8')).keys()], ['a', 'b/ü\\n'])
  t.strictSame(readdirSync(directory), ['x.scripted'])
})

t.test('a manifest with what scripts changed', async t => {
  const manifest: ManifestLine[] = [
    { ...file('b', '2'), before: earlier('2') },
    { ...file('c', '2'), before: earlier('1') },
    { ...file('d', '2'), before: null },
    { made: 'e' }
  ]
  const scripted: ScriptedLine[] = [
    { ...file('a', '3'), kept: 'scripted', before: earlier('0') },
    file('b', '3'),
    { ...file('c', '3'), before: earlier('0'), isEarly: true },
    { removed: 'd' },
    { removed: 'e' }
  ]
  const all: ManifestLine[] = []
  for await (const line of withScripted(each(manifest), each(scripted), 'dep_1')) all.push(line)
  t.strictSame(all, [
    { ...file('a', '3'), kept: 'scripted', before: earlier('0') },
    { ...file('b', '3'), before: { ...earlier('2'), kept: 'archive:dep_1' } },
    { ...file('c', '2'), before: earlier('0') },
    { removed: 'd', before: null },
    { removed: 'e', before: null }
  ])
})

t.test('the later line wins, and the state before the deployment stays', t => {
  const first: ScriptedLine[] = [{ ...file('a', '1'), before: earlier('0'), isEarly: true }, file('c', '1')]
  const second: ScriptedLine[] = [file('b', '2'), file('a', '2'), { removed: 'c' }]
  t.strictSame(joinScripted(first, second), [
    { ...file('a', '2'), before: earlier('0') },
    file('b', '2'),
    { removed: 'c' }
  ])
  t.end()
})
