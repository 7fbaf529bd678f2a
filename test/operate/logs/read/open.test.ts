import { linkSync, mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { zipOf } from '../../../support/zip.js'
import { createDeny } from '../../../../lib/operate/logs/read/secrets.js'
import { createOpenLog, openAgain } from '../../../../lib/operate/logs/read/open.js'

t.test('applies the deny list to the file that is really opened', async t => {
  const directory = t.testdir({ home: { 'config.json': '{}' }, 'app.log': 'x\n', sub: {} })
  const home = join(directory, 'home')
  const openLog = createOpenLog({ deny: createDeny([home]), secrets: [join(home, 'config.json')] })
  const path = (name: string): string => join(directory, name)
  const code = (name: string): Promise<string> =>
    openLog(path(name)).then(
      async ({ handle }) => {
        await handle.close()
        return 'opened'
      },
      error => error.code
    )

  t.equal(await code('app.log'), 'opened')
  symlinkSync('app.log', path('link'))
  t.equal(await code('link'), 'opened')
  symlinkSync(join(home, 'config.json'), path('sly.log'))
  t.equal(await code('sly.log'), 'denied_path')
  symlinkSync('home', path('elsewhere'))
  t.equal(await code('elsewhere/config.json'), 'denied_path', 'through a linked directory')
  linkSync(join(home, 'config.json'), path('hard.log'))
  t.equal(await code('hard.log'), 'denied_path', 'a hard link')
  symlinkSync('circle', path('circle'))
  t.equal(await code('circle'), 'invalid_field')
  t.equal(await code('nothing'), 'file_missing')
  t.equal(await code('sub'), 'not_a_file')
  t.equal(await code('app.log/x'), 'file_missing')
  if (process.platform !== 'win32') {
    execFileSync('mkfifo', [path('fifo')])
    t.equal(await code('fifo'), 'not_a_file', 'a FIFO does not hang')
  }
  writeFileSync(path('locked'), 'x', { mode: 0 })
  if (process.getuid?.() === 0) t.comment('root may read everything: not_readable is skipped')
  else t.equal(await code('locked'), 'not_readable')

  const packed = async (root: string): Promise<Buffer> => Buffer.from(await zipOf({ [`${root}/settings.json`]: '{}' }))
  writeFileSync(path('renamed.log'), await packed('svc-export'))
  t.equal(await code('renamed.log'), 'denied_path', 'a package, whatever its name')
  writeFileSync(path('nightly'), await packed('svc-backup'))
  t.equal(await code('nightly'), 'denied_path', 'a backup, whatever its name')
  writeFileSync(path('site.zip'), await packed('site'))
  t.equal(await code('site.zip'), 'opened')

  t.test('opens nothing else if a link changes while it is opened', async t => {
    mkdirSync(path('race'))
    const turned = path('race/log')
    const turn = (target: string): void => {
      symlinkSync(target, path('race/next'))
      renameSync(path('race/next'), turned)
    }
    let isOver = false
    const turning = (async () => {
      for (let round = 0; !isOver; round++) {
        turn(round % 2 === 0 ? path('app.log') : join(home, 'config.json'))
        await new Promise(setImmediate)
      }
    })()
    for (let round = 0; round < 300; round++) {
      const log = await openLog(turned).catch(() => null)
      if (log === null) continue
      t.equal(String(await log.handle.readFile()), 'x\n')
      await log.handle.close()
    }
    isOver = true
    await turning
    unlinkSync(turned)
  })
})

t.test('opens the same file again, or none', async t => {
  const directory = t.testdir({ 'app.log': 'x\n', 'other.log': 'y\n' })
  const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })
  const path = join(directory, 'app.log')
  const log = await openLog(path)
  t.teardown(() => log.handle.close())
  const again = await openAgain(log)
  t.equal((await again.readFile()).toString(), 'x\n')
  await again.close()
  renameSync(path, join(directory, 'rotated.log'))
  await t.rejects(openAgain(log), { code: 'ENOENT' })
  renameSync(join(directory, 'other.log'), path)
  await t.rejects(openAgain(log), { code: 'ENOENT' }, 'another file')
  unlinkSync(path)
  symlinkSync('rotated.log', path)
  await t.rejects(openAgain(log), 'a link')
  unlinkSync(path)
  if (process.platform === 'win32') return
  execFileSync('mkfifo', [path])
  await t.rejects(openAgain(log), { code: 'ENOENT' }, 'a pipe, without waiting for its writer')
})
