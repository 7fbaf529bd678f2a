import { createHash } from 'node:crypto'
import t from 'tap'
import { anyArchive, openKept } from '../../../lib/core/archive/pack-set.js'
import { sharedArchives } from '../../support/shared-archive.js'

t.test(
  'the bytes of the whole zip can be read from any place, and have the digest that was computed without them',
  async t => {
    const { add, pathOf } = await sharedArchives(t)
    const many = Object.fromEntries(Array.from({ length: 2100 }, (_, at) => [`many/${at}`, `text ${at}`]))
    await add(many)
    const { id, bytes, sha256 } = await add({ ...many, 'many/7': 'changed', 'many/z': 'x'.repeat(3_000_000) })
    const archive = await openKept(pathOf(id), anyArchive)
    const { file } = archive
    const whole = Buffer.alloc(file.size)
    t.equal(file.readSync(whole, 0), bytes)
    t.equal(createHash('sha256').update(whole).digest('hex'), sha256)
    // From the end to the beginning, in pieces that end within headers.
    const piece = Buffer.alloc(7001)
    for (let at = bytes - 5; at > 0; at -= 50_021) {
      const length = file.readSync(piece, at)
      t.ok(piece.subarray(0, length).equals(whole.subarray(at, at + 7001)))
    }
    t.equal(file.readSync(piece, bytes), 0)
    archive.close()
  }
)
