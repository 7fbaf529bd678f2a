import t from 'tap'
import {
  type BundleManifest,
  isLateEnough,
  manifestText,
  maxBytesOf,
  readManifest,
  signaturesOf
} from '../../../lib/cli/bundle/format.js'

const digest = 'a'.repeat(64)
const manifest: BundleManifest = {
  minServer: '1.0.0',
  needs: ['statement'],
  project: 'shop',
  message: 'New prices',
  provenance: null,
  tree: { sha256: digest, files: 2, bytes: 18 },
  env: ['API_URL'],
  postDeployAsync: true,
  parts: [
    { name: 'archive.zip', bytes: 300, sha256: digest },
    { name: 'tree', bytes: 200, sha256: digest },
    { name: 'statement.json', bytes: 100, sha256: digest },
    { name: 'signatures/1', bytes: 100, sha256: digest }
  ]
}

function refusalOf(text: string): { code: string; message: string } {
  try {
    readManifest(text)
  } catch (error) {
    return error as { code: string; message: string }
  }
  return { code: 'accepted', message: '' }
}

t.test('what is written is read again', async t => {
  t.same(readManifest(manifestText(manifest)), manifest)
})

t.test('signatures are in the order of their numbers, and need a statement', async t => {
  const [archive, tree, statement] = manifest.parts as [object, object, object]
  const signatures = [10, 2, 1].map(each => ({ name: `signatures/${each}`, bytes: 1, sha256: digest }))
  const parts = [archive, tree, statement, ...signatures] as BundleManifest['parts']
  t.same(signaturesOf({ parts }), ['signatures/1', 'signatures/2', 'signatures/10'])
  const without = [archive, tree, ...signatures] as BundleManifest['parts']
  t.match(refusalOf(manifestText({ ...manifest, parts: without })), {
    code: 'not_a_bundle',
    message: /not the statement/
  })
})

t.test('a manifest of nothing but what is needed is read', async t => {
  const { minServer, tree, parts } = manifest
  const read = readManifest(JSON.stringify({ format: 1, minServer, tree, parts }))
  t.match(read, { needs: [], project: null, message: null, provenance: null, env: [], postDeployAsync: null })
})

const wrong: Array<[what: string, change: (given: Record<string, any>) => void, says: RegExp]> = [
  ['another format', given => (given['format'] = 'zip'), /does not say "format": 1/],
  ['no tree', given => delete given['tree'], /"tree"/],
  ['a short digest', given => (given['tree'].sha256 = 'abc'), /tree\.sha256/],
  ['a negative size', given => (given['parts'][0].bytes = -1), /parts\[0\]\.bytes/],
  ['a size that no number holds', given => (given['parts'][0].bytes = 2 ** 60), /parts\[0\]\.bytes/],
  ['a foreign entry', given => (given['parts'][0].name = '../../etc/passwd'), /no such entry/],
  ['itself as an entry', given => (given['parts'][0].name = 'bundle.json'), /no such entry/],
  ['an entry twice', given => (given['parts'][1].name = 'archive.zip'), /names an entry twice/],
  ['no archive', given => given['parts'].shift(), /does not name "archive\.zip"/],
  ['a variable with a value', given => (given['env'] = ['A=secret']), /env\[0\]/],
  ['a version that is none', given => (given['minServer'] = 'newest'), /minServer/],
  ['lines in the message', given => (given['message'] = 'a\nb'), /message/]
]

t.test('a manifest is refused with the field that is wrong', async t => {
  for (const [what, change, says] of wrong) {
    const given = JSON.parse(manifestText(manifest))
    change(given)
    t.match(refusalOf(JSON.stringify(given)), { code: 'not_a_bundle', message: says }, what)
  }
  for (const text of ['', '{', '[]', 'null', '"x"']) t.equal(refusalOf(text).code, 'not_a_bundle', text)
})

t.test('a later format is refused with what to do', async t => {
  t.match(refusalOf(JSON.stringify({ ...manifest, format: 2 })), {
    code: 'bundle_too_new',
    message: /its format is 2, and this svc knows up to 1\. Update svc/
  })
})

t.test('only the entries of the format have a size', async t => {
  for (const name of ['archive.zip', 'tree', 'scripts/pre', 'signatures/16', 'bundle.json'])
    t.ok(maxBytesOf(name), name)
  for (const name of ['', 'signatures/0', 'signatures/17', 'signatures/1/x', '__proto__', 'toString', 'TREE'])
    t.equal(maxBytesOf(name), null, name)
})

t.test('versions are compared number by number', async t => {
  for (const [version, least, is] of [
    ['1.1.0', '1.0.0', true],
    ['1.10.0', '1.9.9', true],
    ['1.1.0', '1.1.0', true],
    ['1.1.0', '1.2.0', false],
    ['2.0.0', '1.9.0', true],
    ['1.1.0-rc.1', '1.1.0', true],
    ['dev', '9.0.0', true]
  ] as const)
    t.equal(isLateEnough(version, least), is, `${version} for ${least}`)
})
