import t from 'tap'
import { isOfDeployments, listOthers } from '../../lib/backup/contents.js'

t.test('includes permanent files and excludes temporary ones', async t => {
  const directory = t.testdir({
    'config.json': '{}',
    'svc.db': 'image',
    'svc.db-redo': 'log',
    'session.key': 'key',
    'half.tmp': 'half',
    'before-restore-1': { 'old.txt': 'old' },
    tmp: { 'a.zip': 'zip' },
    witness: { '0a1b2c3d.note': 'seen' },
    node: { 'svc.db': 'that of the agent' },
    '.cluster-init': { complete: '1' },
    keys: { 'server.ed25519': 'key' },
    deployments: { 'dep_a.zip': 'zip' },
    pm2: { 'out.log': 'said', 'app.pid': '1', tmp: { kept: 'deeper names are not ours' } }
  })
  const { files, notes } = await listOthers(directory)
  t.same(
    files.map(({ path, bytes }) => [path, bytes]),
    [
      ['config.json', 2],
      ['keys/server.ed25519', 3],
      ['pm2/out.log', 4],
      ['pm2/tmp/kept', 25]
    ]
  )
  t.same(notes, [])
})

t.test('leaves out links with a note, but follows that of config.json', async t => {
  const elsewhere = t.testdir({
    real: '{"a":1}',
    link: t.fixture('symlink', 'real'),
    'config.json': t.fixture('symlink', 'real')
  })
  const { files, notes } = await listOthers(elsewhere)
  t.same(
    files.map(({ path }) => path),
    ['config.json', 'real']
  )
  t.equal(notes.length, 1)
  t.match(notes[0], /"link"/)
})

t.test('leaves out undo journals and unfinished files of deployments', async t => {
  for (const name of ['dep_a.zip', 'dep_a.log', 'dep_a.manifest']) t.ok(isOfDeployments(name), name)
  for (const name of ['dep_a.undo', 'dep_a.helper', 'dep_a.manifest.tmp', '.hidden'])
    t.notOk(isOfDeployments(name), name)
})
