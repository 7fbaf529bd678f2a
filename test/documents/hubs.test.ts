import t from 'tap'
import { makeCertificate } from '../support/certificates.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { findProgram } from '../support/programs.js'
import { blocksOf, runBlocks, type Block } from './document.js'

/*
 * Runs the commands of "Several hubs" in docs/fleet.md: three members of etcd with TLS, and two hubs with HTTPS, whose
 * certificates are of an authority that only `--hub-ca` names. Blocks marked `second` are those of the second machine, which is
 * a second data directory. Between them, the test does what the text around the blocks says, and looks at the results.
 */
const missing = ['etcdctl', 'openssl', 'curl'].find(name => findProgram(name) === null)
const skip = withoutEtcd() || (missing !== undefined && `${missing} is not on this machine`)

/**
 * A server keeps its process id beside its data directory; there is no unit that `systemctl stop` could stop. Node reads
 * certificates only when it starts: a command that needs them is a process of its own.
 */
const programs = {
  'usr/local/bin/svc': `#!/bin/sh
case "$1" in serve) echo $$ > "$SVC_HOME.pid"; set -- "$@" --port "$PORT" ;; esac
[ -z "\${NODE_EXTRA_CA_CERTS:-}" ] && [ -n "$DOOR" ] && exec $DOOR "$@"
exec node "$TOP/bin/svc.js" "$@"
`,
  'usr/local/bin/systemctl': `#!/bin/sh
pid=$(cat "$SVC_HOME.pid")
kill "$pid"
while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
`
}

/** Commands of the test on the first machine. */
const check = (text: string): Block => ({ line: 0, mark: 'sh hubs', text: `${text}\n` })

const before: Block[] = [
  check('chmod +x /usr/local/bin/* && mkdir -p /etc/svc'),
  { line: 0, mark: 'sh hubs server', text: 'svc serve\n' },
  check(`curl -fsS http://localhost:$PORT/api/projects -H "Authorization: Bearer $ADMIN_TOKEN" \\
    -H 'Content-Type: application/json' -d '{"name": "site", "deployPath": "/srv/site"}'`),
  check(`svc init --project $PROJECT --server http://localhost:$PORT --out dist
    SVC_DEPLOY_TOKEN=$DEPLOY_TOKEN svc push`)
]

const until = (text: string): Block =>
  check(`for try in $(seq 200); do if ${text}; then break; fi; sleep 0.2; [ $try != 200 ]; done`)

/** What the test does after a block, by its mark and its text. */
const after: Array<[block: RegExp, checks: Block[]]> = [
  [/h1\.pem/, [check('cp "$SVC_HOME/cluster.key" .')]],
  [
    /h2\.pem/,
    [
      until(`[ "$(svc cluster status | grep -c 'up to date')" = 2 ]`),
      until(
        `[ "$(NODE_EXTRA_CA_CERTS=hub-ca.pem svc fleet nodes --server https://h1.example.org:5431 --token $ADMIN_TOKEN | grep -cE '^h[12] .*connected')" = 2 ]`
      ),
      // The second hub passes it on to the first one. Both keep the archive before it is accepted.
      check(`echo two > dist/index.html
        SVC_DEPLOY_TOKEN=$DEPLOY_TOKEN SVC_SERVER_URL=https://h2.example.org:5431 NODE_EXTRA_CA_CERTS=hub-ca.pem svc push
        grep -q two /srv/site/index.html
        cmp /var/lib/svc1/deployments/$DEPLOYMENT.zip /var/lib/svc2/deployments/$DEPLOYMENT.zip`)
    ]
  ],
  [/second[^]*cluster leave/, [until(`[ "$(svc cluster status | grep -c 'up to date')" = 1 ]`)]],
  [
    /etcdctl del/,
    [
      { line: 0, mark: 'sh hubs server', text: 'svc serve\n' },
      check(`[ "$(svc status --server http://localhost:$PORT --token $ADMIN_TOKEN | grep -c '^dep_.* success')" = 2 ]
        svc undo --server http://localhost:$PORT --token $ADMIN_TOKEN --yes
        grep -q one /srv/site/index.html`)
    ]
  ]
]

function blocksOfHubs(): Block[] {
  const blocks = blocksOf('docs/fleet.md').filter(({ mark }) => /^sh hubs( second)?( server)?$/.test(mark))
  return blocks.flatMap(block => [
    block,
    ...after.filter(([what]) => what.test(`${block.mark}\n${block.text}`)).flatMap(([, checks]) => checks)
  ])
}

t.test('the commands of docs/fleet.md make two hubs of a server, and a server of the last hub', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3, auth: false })
  const authority = makeCertificate({ name: 'Authority of the hubs', isAuthority: true })
  const [first, second] = [makeCertificate({ issuer: authority }), makeCertificate({ issuer: authority })]
  const ports = [await freePort(), await freePort()]
  const read = (text: string): string =>
    text
      .replace(/https:\/\/e([123]):2379/g, (_, number) => etcd.members[Number(number) - 1]?.url as string)
      .replace(/https:\/\/h([12])\.example\.org:5431/g, (_, number) => `https://localhost:${ports[Number(number) - 1]}`)
  const placed = ({ line, mark, text }: Block): Block => {
    const at = mark.includes('second') ? 1 : 0
    const machine = `export SVC_HOME=/var/lib/svc${at + 1} PORT=${ports[at]}\n`
    return { line, mark: mark.endsWith('server') ? 'sh server' : 'sh', text: machine + read(text) }
  }
  const outcome = await runBlocks([...before, ...blocksOfHubs()].map(placed), {
    files: {
      ...programs,
      'work/dist/index.html': '<h1>one</h1>\n',
      'work/etcd-ca.pem': etcd.options.ca as string,
      'work/hub-ca.pem': authority.cert,
      'work/h1.pem': first.cert,
      'work/h1.key': first.key,
      'work/h2.pem': second.cert,
      'work/h2.key': second.key
    }
  })
  t.equal(outcome.code, 0, `docs/fleet.md:${outcome.line} ${outcome.stderr.slice(-3000)}`)
})
