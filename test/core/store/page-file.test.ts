import t from 'tap'
import { createPageFile, type Image, type PageFile, pieceBytes, piecesOf } from '../../../lib/core/store/page-file.js'
import { createRandom } from '../../support/random.js'

/** Uses the object for sql.js in the way of MEMFS. */
function adopt(file: PageFile): Uint8Array {
  return file.handed.slice(0, file.handed.length)
}

function bytesOf(image: Image): Buffer {
  return Buffer.concat(image.pieces)
}

t.test('contains the given bytes once they are adopted', async t => {
  const file = createPageFile([Buffer.from('some bytes')])
  t.equal(file.handed.length, 10)
  t.notOk(file.adopted)
  const contents = adopt(file)
  t.ok(file.adopted)
  t.equal(Buffer.from(contents.subarray(5, 10)).toString(), 'bytes')
  t.equal(bytesOf(file.image()).toString(), 'some bytes')
})

t.test('keeps images unchanged whatever is written, with any number of images in any order of release', async t => {
  const random = createRandom(11)
  const file = createPageFile(piecesOf(Buffer.alloc(3 * pieceBytes + 100, 1)))
  const contents = adopt(file)
  let model = Buffer.alloc(3 * pieceBytes + 100, 1)
  const held: Array<{ image: Image; expected: Buffer }> = []
  for (let step = 1; step < 600; step++) {
    const bytes = Buffer.alloc(1 + random.below(random.below(10) === 0 ? 2 * pieceBytes : 4096), step)
    const at = random.below(model.length + 1)
    contents.set(bytes, at)
    if (at + bytes.length > model.length) model = Buffer.concat([model], at + bytes.length)
    model.set(bytes, at)
    const from = random.below(model.length)
    const to = Math.min(model.length, from + random.below(2 * pieceBytes))
    if (!model.subarray(from, to).equals(contents.subarray(from, to))) t.fail(`what is read differs at step ${step}`)
    if (random.below(20) === 0) held.push({ image: file.image(), expected: Buffer.from(model) })
    if (held.length > 0 && random.below(25) === 0) {
      const [{ image, expected }] = held.splice(random.below(held.length), 1) as [(typeof held)[number]]
      if (image.bytes !== expected.length || !bytesOf(image).equals(expected))
        t.fail(`an image has changed by step ${step}`)
      image.release()
      image.release()
    }
  }
  t.equal(file.writes, 599)
  for (const { image, expected } of held) t.ok(bytesOf(image).equals(expected))
})

t.test('copies a piece once per image, and not after the image was released', async t => {
  const file = createPageFile(piecesOf(Buffer.alloc(2 * pieceBytes)))
  const contents = adopt(file)
  const page = Buffer.alloc(4096, 7)
  const isSame = (one: Image, other: Image, index: number): boolean =>
    one.pieces[index]?.byteOffset === other.pieces[index]?.byteOffset &&
    one.pieces[index]?.buffer === other.pieces[index]?.buffer
  const first = file.image()
  contents.set(page, 0)
  const second = file.image()
  t.notOk(isSame(first, second, 0))
  t.ok(isSame(first, second, 1), 'an unchanged piece is shared')
  first.release()
  second.release()
  contents.set(page, 4096)
  contents.set(page, pieceBytes)
  const third = file.image()
  t.ok(isSame(second, third, 0))
  t.ok(isSame(second, third, 1))
})
