import { chown, open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { giveToOwner } from '../../lib/base/give-to-owner.js'

const noRoot = process.getuid?.() === 0 ? false : 'only root can give files away'

t.test('root gives a file to the owner of its directory', { skip: noRoot }, async t => {
  const directory = t.testdir({})
  await chown(directory, 65_534, 65_534)
  const file = await open(join(directory, 'a'), 'wx')
  t.teardown(() => file.close())
  giveToOwner(file.fd, directory)
  t.match(await file.stat(), { uid: 65_534, gid: 65_534 })
})

t.test('a file in a directory of the same user keeps its owner', async t => {
  const directory = t.testdir({})
  const file = await open(join(directory, 'a'), 'wx')
  t.teardown(() => file.close())
  giveToOwner(file.fd, directory)
  t.equal((await file.stat()).uid, process.getuid?.() ?? 0)
})
