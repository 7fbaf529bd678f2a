import t from 'tap'
import { matchesComponent, maxComponents, readSbom } from '../../lib/model/sbom.js'

const read = (value: unknown) => readSbom(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))

function refusalOf(value: unknown): { code: string; message: string } {
  try {
    read(value)
  } catch (error) {
    return error as { code: string; message: string }
  }
  return { code: 'accepted', message: '' }
}

const cyclone = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  components: [
    {
      group: 'org.apache.logging.log4j',
      name: 'log4j-core',
      version: '2.14.1',
      purl: 'pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1',
      components: [{ name: 'inner', version: '1.0' }]
    },
    { name: 'left-pad' },
    { version: 'without a name' },
    'no object'
  ]
}
const log4j = {
  name: 'org.apache.logging.log4j/log4j-core',
  version: '2.14.1',
  purl: 'pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1'
}

t.test('CycloneDX, with components in components', async t => {
  t.same(read(cyclone), {
    kind: 'CycloneDX',
    version: '1.5',
    components: [log4j, { name: 'left-pad', version: null, purl: null }, { name: 'inner', version: '1.0', purl: null }]
  })
  t.same(read({ bomFormat: 'CycloneDX', specVersion: '1.6' }).components, [])
})

t.test('SPDX 2 and SPDX 3', async t => {
  const packages = [
    {
      name: 'log4j-core',
      versionInfo: '2.14.1',
      externalRefs: [
        { referenceType: 'cpe23Type', referenceLocator: 'cpe:' },
        { referenceType: 'purl', referenceLocator: 'pkg:maven/x' }
      ]
    }
  ]
  t.same(read({ spdxVersion: 'SPDX-2.3', packages }), {
    kind: 'SPDX',
    version: '2.3',
    components: [{ name: 'log4j-core', version: '2.14.1', purl: 'pkg:maven/x' }]
  })
  const graph = [
    { type: 'software_Package', name: 'zlib', software_packageVersion: '1.3', software_packageUrl: 'pkg:generic/zlib' },
    { type: 'Person', name: 'Ana' }
  ]
  t.same(read({ '@context': 'https://spdx.org/rdf/3.0.0/spdx-context.jsonld', '@graph': graph }).components, [
    { name: 'zlib', version: '1.3', purl: 'pkg:generic/zlib' }
  ])
})

t.test('other files are refused with the reason', async t => {
  for (const [value, says] of [
    ['', /not valid JSON/],
    ['{', /not valid JSON/],
    ['[]', /not a JSON object/],
    [{}, /neither CycloneDX nor SPDX/],
    [{ bomFormat: 'cyclonedx' }, /neither/],
    [{ spdxVersion: 2 }, /neither/],
    [{ '@graph': [] }, /neither/]
  ] as const)
    t.match(refusalOf(value), { code: 'invalid_sbom', message: says }, JSON.stringify(value))
  t.equal(refusalOf(Buffer.from([0xff]).toString('latin1')).code, 'invalid_sbom')
})

t.test('sizes are limited, and the time is', async t => {
  const large = `{"bomFormat":"CycloneDX","x":"${'x'.repeat(10 * 1024 * 1024)}"}`
  t.equal(refusalOf(large).code, 'sbom_too_large')
  const many = `{"bomFormat":"CycloneDX","components":[${'{},'.repeat(maxComponents)}{}]}`
  t.equal(refusalOf(many).code, 'sbom_too_large')
  const levels = 60_000
  const deep = `{"bomFormat":"CycloneDX","components":${'[{"name":"a","components":'.repeat(levels)}[]${'}]'.repeat(levels)}}`
  const from = performance.now()
  const code = refusalOf(deep).code
  t.ok(code === 'accepted' || code === 'invalid_sbom', code)
  t.ok(performance.now() - from < 2000)
})

t.test('texts are one line, and not endless', async t => {
  const [component] = read({
    bomFormat: 'CycloneDX',
    components: [{ name: `a\u001b[2J\n${'b'.repeat(5000)}`, version: 7, purl: {} }]
  }).components
  t.notMatch(component?.name, /[\u0000-\u001f]/)
  t.ok((component?.name.length ?? 0) < 1100)
  t.match(component, { version: null, purl: null })
})

t.test('a search finds parts of the name and whole parts of the version', async t => {
  const rows: Array<[name: string, version: string | undefined, is: boolean]> = [
    ['log4j', undefined, true],
    ['LOG4J-Core', undefined, true],
    ['pkg:maven/org.apache', undefined, true],
    ['log5j', undefined, false],
    ['log4j', '2.14.1', true],
    ['log4j', '2.14', true],
    ['log4j', '2.1', false],
    ['log4j', '2', true],
    ['log4j', '2.15.0', false]
  ]
  for (const [name, version, is] of rows) t.equal(matchesComponent(log4j, { name, version }), is, `${name} ${version}`)
  t.notOk(matchesComponent({ name: 'x', version: null, purl: null }, { name: 'x', version: '1' }))
})
