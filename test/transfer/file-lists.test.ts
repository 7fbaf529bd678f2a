import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { maxLineBytes } from '../../lib/base/text.js'
import { isManifestLine, isScriptedLine } from '../../lib/install/manifest.js'
import { copyList } from '../../lib/transfer/file-lists.js'

const entry = { size: 1, mode: 0o106755, sha256: 'a'.repeat(64), mtimeMs: 1 }
const harmless = { ...entry, mode: 0o100755 }
const owner = { uid: 0, gid: 0 }

t.test('copies lists without owners, and without bits that give the rights of an owner', async t => {
  const directory = t.testdir()
  let number = 0
  const copy = async (lines: Array<object | string | Buffer>, isLine: (value: unknown) => boolean) => {
    const [from, to] = [join(directory, `from${++number}`), join(directory, `to${number}`)]
    const bytes = (line: object | string | Buffer): Buffer =>
      Buffer.isBuffer(line) ? line : Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))
    writeFileSync(from, Buffer.concat(lines.flatMap(line => [bytes(line), Buffer.from('\n')])))
    const isWhole = await copyList(from, to, isLine)
    const lineOf = (text: string): unknown => (text === '-' ? text : JSON.parse(text))
    return { isWhole, lines: readFileSync(to, 'utf8').split('\n').slice(0, -1).map(lineOf) }
  }
  t.strictSame(
    await copy(
      [
        { path: 'a', ...entry, ino: 1, before: { ...entry, kept: 'before', owner } },
        { removed: 'b', before: { ...entry, owner } },
        { removed: 'c', before: null },
        { made: 'd' },
        { made: 'e', before: { ...entry, owner } },
        { path: 'f', ...entry, owner, before: null }
      ],
      isManifestLine
    ),
    {
      isWhole: true,
      lines: [
        { path: 'a', ...harmless, ino: 1, before: { ...harmless, kept: 'before' } },
        { removed: 'b', before: harmless },
        { removed: 'c', before: null },
        { made: 'd' },
        { made: 'e', before: harmless },
        { path: 'f', ...harmless, before: null }
      ]
    }
  )
  t.strictSame(await copy([{ path: 'a', ...entry, isEarly: true }], isScriptedLine), {
    isWhole: true,
    lines: [{ path: 'a', ...harmless, isEarly: true }]
  })
  t.strictSame(await copy([{ path: 'a', ...harmless, mode: 2 ** 32 + 0o106755, before: null }], isManifestLine), {
    isWhole: true,
    lines: [{ path: 'a', ...harmless, before: null }]
  })
  // Read as UTF-8, it becomes longer than a line may be, and its end a line of its own.
  const long = Buffer.concat([
    Buffer.from('{"path":"'),
    Buffer.alloc(maxLineBytes / 2, 0xff),
    Buffer.from(`",${JSON.stringify({ ...entry, before: null }).slice(1)}`)
  ])
  for (const broken of ['', '{', 'null', '{"path":"../a"}', long]) {
    t.strictSame(await copy([{ made: 'd' }, broken], isManifestLine), { isWhole: false, lines: [{ made: 'd' }, '-'] })
  }
})
