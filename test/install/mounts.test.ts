import { realpathSync } from 'node:fs'
import t from 'tap'
import { isLocalTree, listMounts, parseMounts } from '../../lib/install/mounts.js'

const listed = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 27 0:40 / /srv/net rw - nfs4 files:/srv rw
31 27 0:41 / /srv/with\\040blank rw,relatime - fuse.sshfs a:/ rw
32 27 0:42 / /tmp rw - tmpfs tmpfs rw
33 32 0:43 / /tmp rw - fuse.tool tool rw
34 27 0:44 / /data rw - fuse.tool tool rw
35 34 0:45 / /data rw - xfs /dev/sdb rw
`

t.test('parses points and types, with decoded points', async t => {
  t.strictSame(
    parseMounts(listed).map(({ point, type }) => `${point} ${type}`),
    [
      '/proc proc',
      '/ ext4',
      '/srv/net nfs4',
      '/srv/with blank fuse.sshfs',
      '/tmp tmpfs',
      '/tmp fuse.tool',
      '/data fuse.tool',
      '/data xfs'
    ]
  )
})

t.test('a tree is local if it is on one local file system, with no other below it', async t => {
  const mounts = parseMounts(listed)
  for (const [path, isLocal] of [
    ['/srv/site', true],
    ['/srv/network', true],
    ['/srv/net', false],
    ['/srv/net/site', false],
    ['/srv', false],
    ['/', false],
    ['/srv/with blank/x', false],
    ['/tmp/x', false],
    ['/data/x', true],
    ['/proc/1', false]
  ] as const)
    t.equal(isLocalTree(mounts, path), isLocal, path)
  t.equal(isLocalTree([], '/srv'), false, 'nothing is known')
})

t.test(
  'lists the mounts of this machine',
  { skip: process.platform !== 'linux' && 'only Linux lists them' },
  async t => {
    const mounts = await listMounts()
    t.ok(mounts.some(({ point }) => point === '/'))
    t.equal(isLocalTree(mounts, realpathSync('/proc/self')), false)
  }
)
