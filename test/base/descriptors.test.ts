import t from 'tap'
import { closeSync, constants, openSync, readdirSync, realpathSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { nameOfDescriptor, ownDescriptors, placeOfDescriptor } from '../../lib/base/descriptors.js'

t.test('only Linux shows descriptors', async t => t.equal(ownDescriptors === null, process.platform !== 'linux'))

t.test(
  'finds the location of an open file, even after its name was reused',
  { skip: ownDescriptors === null && 'this system does not say' },
  async t => {
    const directory = realpathSync(t.testdir({ a: { file: 'x' }, b: { file: 'y', other: 'z' } }))
    symlinkSync('a', join(directory, 'link'))
    const file = openSync(join(directory, 'link/file'), 'r')
    t.equal(placeOfDescriptor(file), join(directory, 'a/file'))
    closeSync(file)
    const opened = openSync(join(directory, 'a'), constants.O_RDONLY | constants.O_DIRECTORY)
    t.teardown(() => closeSync(opened))
    renameSync(join(directory, 'a'), join(directory, 'moved'))
    symlinkSync('b', join(directory, 'a'))
    t.equal(placeOfDescriptor(opened), join(directory, 'moved'))
    t.strictSame(readdirSync(nameOfDescriptor(opened, join(directory, 'a'))), ['file'])
  }
)
