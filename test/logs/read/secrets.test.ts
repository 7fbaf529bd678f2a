import { linkSync, readFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createSecrets } from '../../../lib/logs/read/secrets.js'
import { zipOf } from '../../support/zip.js'

t.test('judges an open file by its path, its other names and its contents', async t => {
  const directory = t.testdir({ 'own.db': 'tokens', 'a.log': 'x', '.env': 'x', empty: '' })
  const path = (name: string): string => join(directory, name)
  linkSync(path('own.db'), path('hard.log'))
  writeFileSync(path('backup'), await zipOf({ 'svc-backup/svc.db': 'x' }))
  const package1 = await zipOf({ 'svc-export/settings.json': '{}' })
  writeFileSync(path('package'), package1)
  writeFileSync(path('site'), await zipOf({ 'index.html': 'x', 'svc-export/x': 'x' }))
  writeFileSync(path('copy.log'), '-----BEGIN PRIVATE KEY-----\n')
  writeFileSync(path('rsa.log'), '-----BEGIN RSA PRIVATE KEY-----\n')
  writeFileSync(path('cut'), package1.subarray(0, 20))
  const secrets = createSecrets({ deny: createDeny([]), secrets: [path('own.db'), path('missing')] })
  const judge = async (name: string): Promise<string> => {
    const handle = await open(path(name))
    try {
      await secrets.checkOpened(handle, path(name), { asked: name, field: 'path' })
      return 'shown'
    } catch (error) {
      return (error as { code: string }).code
    } finally {
      await handle.close()
    }
  }
  for (const name of ['a.log', 'empty', 'site', 'cut']) t.equal(await judge(name), 'shown', name)
  for (const name of ['.env', 'hard.log', 'backup', 'package', 'copy.log', 'rsa.log'])
    t.equal(await judge(name), 'denied_path', name)

  const handle = await open(path('a.log'))
  await secrets.checkOpened(handle, path('a.log'), { asked: 'a.log', field: 'path' })
  t.equal(await handle.readFile('utf8'), readFileSync(path('a.log'), 'utf8'), 'reading still starts at the beginning')
  await handle.close()
})

t.test('names the target of an absolute path in the refusal, but not that of a relative one', async t => {
  const secrets = createSecrets({ deny: createDeny([]), secrets: [] })
  const check = (asked: string) => () => secrets.checkPath('/srv/shop/.env', { asked, field: 'path' })
  t.throws(check('/srv/x'), {
    code: 'denied_path',
    message: 'Cannot read "/srv/x", which leads to "/srv/shop/.env": it may contain passwords'
  })
  t.throws(check('x'), { code: 'denied_path', message: 'Cannot read "x": it may contain passwords' })
  t.doesNotThrow(() => secrets.checkPath('/srv/a.log', { asked: 'x', field: 'path' }))
})
