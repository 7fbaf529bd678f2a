import t, { type Test } from 'tap'
import { execFileSync, spawnSync } from 'node:child_process'
import { cannotIsolate } from '../../support/namespaces.js'
import {
  findGroup,
  findIdentity,
  maySwitchUser,
  parseUmask,
  variablesOf,
  withRights
} from '../../../lib/core/proc/identity.js'

const isRoot = maySwitchUser()
const asRoot = isRoot ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('finds a user by name', asRoot, async t => {
  t.strictSame(await findIdentity('nobody'), {
    name: 'nobody',
    uid: 65534,
    gid: 65534,
    home: '/nonexistent',
    shell: '/usr/sbin/nologin'
  })
})

t.test('refuses an unsuitable user, with the reason', asRoot, async t => {
  const cases: Array<[name: string, why: RegExp]> = [
    ['root', /rights of root/],
    ['no-such-user-here', /no such user/],
    ['', /not a valid user name/],
    ['-s', /not a valid user name/],
    ['nobody:x', /not a valid user name/],
    ['../nobody', /not a valid user name/],
    ['a'.repeat(40), /not a valid user name/],
    ['65534', /not a valid user name/]
  ]
  for (const [name, why] of cases) {
    await t.rejects(findIdentity(name), { kind: 'invalid', field: 'runAs', message: why }, JSON.stringify(name))
  }
})

t.test('a command gets the rights of the user, and cannot gain others', asRoot, async t => {
  const identity = await findIdentity('nobody')
  const facts = (umask: number | null): string[] => {
    const [program = '', ...words] = withRights(
      [
        'sh',
        '-c',
        'id -u; id -g; id -G; umask; grep -E "NoNewPrivs|CapEff" /proc/self/status; pwd; echo "$1"',
        'sh',
        'a "word"'
      ],
      { identity, umask },
      '/usr'
    )
    return execFileSync(program, words, { encoding: 'utf8' }).trimEnd().split('\n')
  }
  t.strictSame(facts(0o027), [
    '65534',
    '65534',
    '65534',
    '0027',
    'CapEff:\t0000000000000000',
    'NoNewPrivs:\t1',
    '/usr',
    'a "word"'
  ])
  t.equal(facts(null)[3], process.umask().toString(8).padStart(4, '0'), 'without a umask it is unchanged')
  const [program = '', ...words] = withRights(['pwd'], { identity, umask: null }, '/root')
  t.match(
    spawnSync(program, words, { encoding: 'utf8' }),
    { status: 126, stdout: '' },
    'a directory is entered with the rights of the user'
  )
  t.match(variablesOf(identity), { USER: 'nobody', LOGNAME: 'nobody', HOME: '/nonexistent' })
})

t.test('parses a umask of three octal digits', async t => {
  t.equal(parseUmask('027'), 0o027)
  t.equal(parseUmask('0022'), 0o022)
  t.equal(parseUmask('777'), 0o777)
  for (const text of ['', '8', '27', '0x1b', '1022', '02222', '02 2', '-22', '088']) {
    t.throws(() => parseUmask(text), /"umask" cannot be/, JSON.stringify(text))
  }
})

/** Prints why `nobody` cannot be the user of a project. */
const tryNobody = `
import { checkRights } from ${JSON.stringify(new URL('../../../lib/core/proc/identity.js', import.meta.url).href)}
const why = await checkRights({ runAs: 'nobody', umask: null }).catch(error => error.field + ': ' + error.message)
console.log(why ?? 'accepted')
`

/** Runs `tryNobody` where the words of a shell have changed the machine, for this process alone. */
function saidAfter(words: string, t: Test): string {
  const directory = t.testdir({ one: '1\n', programs: {}, real: {} })
  const run = `set -e; cd "$1"; shift; mount --make-rprivate /; ${words}; exec "$@"`
  const program = [process.execPath, '--input-type=module', '--eval', tryNobody]
  const { stdout, stderr } = spawnSync('unshare', ['--mount', 'sh', '-c', run, 'sh', directory, ...program], {
    encoding: 'utf8'
  })
  return stdout.trim() || stderr
}

t.test('refuses a user that svc cannot confine on this machine', { skip: asRoot.skip ?? cannotIsolate() }, async t => {
  t.equal(saidAfter('true', t), 'accepted')
  t.match(
    saidAfter('mount --bind one /proc/sys/fs/suid_dumpable', t),
    /^runAs: .* fs\.suid_dumpable = 1, that user could trace the processes of svc\. Set it to 2/
  )
  const hide =
    'mount --bind /usr/bin real; for each in real/*; do ln -s "$PWD/$each" programs/; done; rm programs/setpriv; '
  t.match(
    saidAfter(`${hide} mount --bind programs /usr/bin`, t),
    /^runAs: .* svc cannot switch to that user \(.*setpriv ENOENT/
  )
})

t.test('refuses every user where svc is not root', asRoot, async t => {
  const words = ['--reuid=nobody', '--clear-groups', process.execPath, '--input-type=module', '--eval', tryNobody]
  t.match(spawnSync('setpriv', words, { encoding: 'utf8' }).stdout, /^runAs: .* svc does not run as root/)
})

t.test('finds a group by name or number', asRoot, async t => {
  t.equal(await findGroup('daemon', null), 1)
  t.equal(await findGroup('54001', null), 54_001, 'root gives files to any group')
  t.equal(await findGroup('nogroup', 'nobody'), 65_534)
  for (const [group, runAs, why] of [
    ['no-such-group', null, /"no-such-group": no such group on this machine\. Create it/],
    ['no-such-group', 'nobody', /no such group/],
    ['daemon', 'nobody', /"daemon": the user "nobody" is not in it\. Add the user to the group/],
    ['0', 'nobody', /the user "nobody" is not in it/]
  ] as const)
    await t.rejects(findGroup(group, runAs), { kind: 'conflict', code: 'group_unusable', message: why }, group)
})

t.test('a server that is not root gives files to its own groups alone', asRoot, async t => {
  const module = new URL('../../../lib/core/proc/identity.js', import.meta.url).href
  const program = `
    const { findGroup } = await import(${JSON.stringify(module)})
    process.setgroups([54001])
    process.setgid(65534)
    process.setuid(65534)
    for (const group of ['65534', '54001', '54002'])
      console.log(await findGroup(group, null).catch(error => error.message))`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' })
  t.match(stdout, /^65534\n54001\n.*the group "54002": the user that svc runs as is not in it/)
})
