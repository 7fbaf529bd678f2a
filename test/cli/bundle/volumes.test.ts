import t, { type Test as Tap } from 'tap'
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { createVolumes, minPartBytes, withVolumes } from '../../../lib/cli/bundle/volumes.js'

const never = new AbortController().signal
const partBytes = minPartBytes

/** Bytes that begin as a zip does. */
function contentsOf(length: number, seed = 31): Buffer {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at < length; at++) bytes[at] = (at * seed + (at >> 8)) & 0xff
  bytes.write('PK\x03\x04', 'latin1')
  return bytes
}

async function write(path: string, contents: Buffer, size: number | null = partBytes): Promise<string[]> {
  const volumes = createVolumes(path, size)
  for (let at = 0; at < contents.length; at += 10_001) await volumes.write(contents.subarray(at, at + 10_001))
  return (await volumes.end()).paths
}

const pathIn = (t: Tap): string => join(t.testdir(), 'app.svcb')

function readWhole(path: string): Promise<Buffer> {
  return withVolumes(path, async ({ file, checkDigests }) => {
    await checkDigests(never)
    const bytes = Buffer.alloc(file.size)
    const half = bytes.subarray(0, bytes.length >> 1)
    file.readSync(half, 0)
    await file.read(bytes.subarray(half.length), half.length)
    return bytes
  })
}

const refusalOf = (path: string): Promise<unknown> => readWhole(path).catch((error: unknown) => error)
const contents = contentsOf(3 * partBytes)

t.test('parts give the same bytes, and each of them names all', async t => {
  const path = pathIn(t)
  const paths = await write(path, contents)
  t.same(
    paths,
    [1, 2, 3, 4].map(number => `${path}.00${number}`)
  )
  for (const part of paths) {
    t.ok(statSync(part).size <= partBytes)
    t.ok((await readWhole(part)).equals(contents), part)
  }
})

t.test('one file is the bytes themselves', async t => {
  const path = pathIn(t)
  t.same(await write(path, contents, null), [path])
  t.ok(readFileSync(path).equals(contents))
  t.ok((await readWhole(path)).equals(contents))
})

t.test('a bundle that just fills its part has one', async t => {
  t.equal((await write(pathIn(t), contentsOf(partBytes - 512))).length, 1)
})

const wrong: Array<[what: string, change: (path: string) => unknown, code: string, says: RegExp]> = [
  ['missing', path => rmSync(`${path}.002`), 'bundle_incomplete', /part 2 of 4 is missing: "app\.svcb\.002"/],
  ['last missing', path => rmSync(`${path}.004`), 'bundle_incomplete', /part 4 of 4 is missing/],
  [
    'doubled',
    path => copyFileSync(`${path}.003`, `${path}.002`),
    'bundle_incomplete',
    /"app\.svcb\.002" and "app\.svcb\.003" are both part 3 of 4/
  ],
  [
    'swapped',
    path => {
      renameSync(`${path}.002`, `${path}.x`)
      renameSync(`${path}.003`, `${path}.002`)
      renameSync(`${path}.x`, `${path}.003`)
    },
    'bundle_incomplete',
    /"app\.svcb\.003" contains part 2: rename it to "app\.svcb\.002"/
  ],
  ['cut', path => truncateSync(`${path}.002`, 5000), 'bundle_damaged', /"app\.svcb\.002" is cut off: 4488 of 65024/],
  ['cut to nothing', path => truncateSync(`${path}.002`, 0), 'bundle_damaged', /"app\.svcb\.002" is cut off/],
  [
    'longer',
    path => writeFileSync(`${path}.002`, Buffer.concat([readFileSync(`${path}.002`), Buffer.alloc(3)])),
    'bundle_damaged',
    /"app\.svcb\.002" has 3 bytes more/
  ],
  [
    'changed',
    path => {
      const bytes = readFileSync(`${path}.003`)
      bytes[3000] = (bytes[3000] as number) ^ 1
      writeFileSync(`${path}.003`, bytes)
    },
    'bundle_damaged',
    /the bytes of "app\.svcb\.003" differ from its digest/
  ],
  ['no head', path => writeFileSync(`${path}.003`, Buffer.alloc(5000)), 'bundle_damaged', /"app\.svcb\.003" does not/],
  [
    'of another bundle',
    async path => {
      const [, second = ''] = await write(`${path}-other`, contentsOf(3 * partBytes, 33))
      copyFileSync(second, `${path}.002`)
    },
    'bundle_incomplete',
    /"app\.svcb\.002" belongs to another bundle/
  ]
]

t.test('a part that is wrong is named', async t => {
  for (const [what, change, code, says] of wrong) {
    await t.test(what, async t => {
      const path = pathIn(t)
      await write(path, contents)
      await change(path)
      t.match(await refusalOf(`${path}.001`), { code, message: says })
    })
  }
})

t.test('a part without its number is refused', async t => {
  const path = pathIn(t)
  await write(path, contents)
  renameSync(`${path}.001`, path)
  const says = /"app\.svcb" is a part of a bundle, and was renamed/
  t.match(await refusalOf(path), { code: 'not_a_bundle', message: says })
})

t.test('more parts than have numbers are refused, and nothing is left', async t => {
  const path = pathIn(t)
  const volumes = createVolumes(path, 600)
  await t.rejects(volumes.write(Buffer.alloc(1000 * 88)), /more than 999 parts/)
  await volumes.abandon()
  t.notOk(existsSync(`${path}.001`))
  t.notOk(existsSync(`${path}.999`))
})

t.test('other files are refused', async t => {
  const directory = t.testdir({ text: 'hello', nothing: '' })
  t.match(await refusalOf(join(directory, 'text')), { code: 'not_a_bundle', message: /"text" is neither/ })
  t.match(await refusalOf(join(directory, 'nothing')), { code: 'not_a_bundle' })
})
