import t from 'tap'
import { execFileSync } from 'node:child_process'
import { closeSync, linkSync, mkdirSync, readSync, statSync, symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { createDigester } from '../../lib/install/digest.js'
import { disk } from '../../lib/install/disk.js'
import { changeTime, openRegular } from '../../lib/install/regular.js'

t.test('opens only regular files, and does not wait', async t => {
  const directory = t.testdir({ file: 'contents' })
  symlinkSync('file', join(directory, 'link'))
  symlinkSync('/dev/zero', join(directory, 'device'))
  mkdirSync(join(directory, 'directory'))
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(directory, 'pipe')])
  const opened = openRegular(disk, join(directory, 'file'))
  t.ok(opened)
  const buffer = Buffer.alloc(20)
  t.equal(readSync(opened?.fd as number, buffer), 8)
  closeSync(opened?.fd as number)
  for (const name of ['link', 'device', 'directory', 'pipe', 'missing', 'file/below']) {
    t.equal(openRegular(disk, join(directory, name)), null, name)
    t.equal(createDigester(disk).file(join(directory, name)), null, `${name} has no digest`)
    if (name !== 'link' && name !== 'device')
      t.equal(createDigester(disk).link(join(directory, name)), null, `${name} is no link`)
  }
})

t.test('sets the time of the expected file only', async t => {
  const directory = t.testdir({ file: 'x', other: 'x', named: 'x' })
  const place = (name: string): string => join(directory, name)
  for (const name of ['file', 'other', 'named']) utimesSync(place(name), 1, 1)
  symlinkSync('other', place('link'))
  linkSync(place('named'), place('again'))
  t.equal(changeTime(disk, place('file'), { toMs: 5000, isExpected: ({ mtimeMs }) => mtimeMs === 1000 }), true)
  t.equal(statSync(place('file')).mtimeMs, 5000)
  t.equal(changeTime(disk, place('file'), { toMs: 9000, isExpected: ({ mtimeMs }) => mtimeMs === 1000 }), false)
  for (const name of ['link', 'again', 'missing'])
    t.equal(changeTime(disk, place(name), { toMs: 9000, isExpected: () => true }), false, name)
  t.strictSame(
    ['file', 'other', 'named'].map(name => statSync(place(name)).mtimeMs),
    [5000, 1000, 1000]
  )
})
