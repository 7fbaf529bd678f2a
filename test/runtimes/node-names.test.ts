import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/*
 * Names that Node 18.0.0, the oldest version that `engines` allows, does not export. A module that imports one of them
 * by name does not load there. `make runtimes` imports every name in that version itself; this list, made from the
 * exports of 18.0.0 and 26.10.0, finds the same within `make test`.
 */
const later: Record<string, string> = {
  assert: 'Assert partialDeepStrictEqual',
  buffer: 'File isAscii isUtf8',
  crypto: 'argon2 argon2Sync createMac decapsulate encapsulate getMacs hash parsePKCS12 randomUUIDv7',
  diagnostics_channel: 'BoundedChannel boundedChannel subscribe tracingChannel unsubscribe',
  dns: 'getDefaultResultOrder resolveTlsa',
  'dns/promises': 'getDefaultResultOrder resolveTlsa',
  events: 'addAbortListener getMaxListeners',
  fs: 'Utf8Stream glob globSync mkdtempDisposableSync openAsBlob openAsBlobSync statfs statfsSync',
  'fs/promises': 'constants glob mkdtempDisposable statfs',
  http: 'CloseEvent MessageEvent WebSocket setGlobalProxyFromEnv setMaxIdleHTTPParsers',
  module:
    'constants enableCompileCache findPackageJSON flushCompileCache getCompileCacheDir getSourceMapsSupport isBuiltin register registerHooks setSourceMapsSupport stripTypeScriptTypes',
  net: 'BoundSocket getDefaultAutoSelectFamily getDefaultAutoSelectFamilyAttemptTimeout setDefaultAutoSelectFamily setDefaultAutoSelectFamilyAttemptTimeout',
  os: 'availableParallelism machine',
  path: 'matchesGlob',
  perf_hooks:
    'Performance PerformanceResourceTiming createSlidingWindowHistogram eventLoopUtilization importHistogram timerify',
  process:
    'addUncaughtExceptionCaptureCallback availableMemory constrainedMemory execve finalization getBuiltinModule loadEnvFile ref sourceMapsEnabled threadCpuUsage unref',
  stream: 'duplexPair getDefaultHighWaterMark isDestroyed isWritable setDefaultHighWaterMark',
  'stream/consumers': 'bytes',
  timers: 'promises',
  tls: 'getCACertificates getCertificateCompressionAlgorithms setDefaultCACertificates',
  url: 'URLPattern fileURLToPathBuffer',
  util: 'MIMEParams MIMEType aborted convertProcessSignalToExitCode debounce diff getCallSites getSystemErrorMessage markPromiseAsHandled parseArgs parseEnv setTraceSigInt styleText throttle transferableAbortController transferableAbortSignal',
  v8: 'GCProfiler getCppHeapStatistics isStringOneByteRepresentation queryObjects setHeapProfileNearHeapLimit setHeapSnapshotNearHeapLimit startCpuProfile startHeapProfile startupSnapshot',
  worker_threads: 'isInternalThread isMarkedAsUntransferable locks markAsUncloneable postMessageToThread threadName',
  zlib: 'ZipBuffer ZipEntry ZipFile ZstdCompress ZstdDecompress crc32 createZipArchive createZipArchiveSync createZstdCompress createZstdDecompress getMaxZipContentSize setMaxZipContentSize zipFiles zstdCompress zstdCompressSync zstdDecompress zstdDecompressSync'
}
/** Modules that 18.0.0 does not have. */
const laterModules = ['ffi', 'inspector/promises', 'sea', 'sqlite', 'test', 'test/reporters', 'wasi']

const top = fileURLToPath(new URL('../../lib/', import.meta.url))

t.test('lib imports nothing by name that the oldest Node does not have', async t => {
  const modules = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.js'))
  let seen = 0
  for (const path of modules) {
    const imports = readFileSync(join(top, path), 'utf8').matchAll(
      /^import (?:[\w*, ]+|[\w, ]*\{([^}]*)\}) from 'node:([^']+)'/gm
    )
    for (const [, names = '', from = ''] of imports) {
      seen += 1
      if (laterModules.includes(from)) t.fail(`${path}: node:${from}`)
      const missing = (later[from] ?? '').split(' ')
      const imported = names.split(',').map(name => name.trim().split(' as ')[0] as string)
      for (const name of imported) if (name !== '' && missing.includes(name)) t.fail(`${path}: ${name} of node:${from}`)
    }
  }
  t.ok(seen > 300, `${seen} imports of ${modules.length} modules`)
})

/**
 * Globals that 18.0.0 does not have, their members, and members of what Node and JavaScript make. `?.` before a call
 * asks whether there is one.
 */
const laterGlobals: Record<string, RegExp> = {
  global:
    /(?<![\w$.'"`-])(?:CloseEvent|CustomEvent|EventSource|File|Iterator|Navigator|Storage|URLPattern|WebSocket|localStorage|navigator|sessionStorage)(?=[.(])(?!\?\.)/,
  'global crypto': /(?<![\w$.'"`-])(?:globalThis\.)?crypto\.(?:subtle|getRandomValues|randomUUID)\b/,
  'static member':
    /(?<![\w$])(?:AbortSignal\.any|Array\.fromAsync|ArrayBuffer\.prototype|Error\.isError|Map\.groupBy|Math\.(?:f16round|sumPrecise)|Object\.groupBy|Promise\.(?:try|withResolvers)|RegExp\.escape|Response\.json|Symbol\.(?:asyncDispose|dispose)|URL\.(?:canParse|parse)|Uint8Array\.from(?:Base64|Hex))\b(?!\?\.)/,
  'member of arrays, strings and sets':
    /\.(?:toReversed|toSorted|toSpliced|isWellFormed|toWellFormed|isDisjointFrom|isSubsetOf|isSupersetOf|symmetricDifference|setFromBase64|setFromHex|toBase64|toHex|transferToFixedLength)\(/,
  'member of Node':
    /\.(?:closeAllConnections|closeIdleConnections|getSetCookie|readLines|readableWebStream|writeEarlyHints|setHeaders|constrainedMemory|availableMemory|loadEnvFile|getBuiltinModule|addAbortListener)\b(?!\?\.|['"`])/,
  'import.meta': /import\.meta\.(?:dirname|filename|main|resolve)\b/
}

/** The code of a module, without comments and texts: they may name anything. */
function codeOf(text: string): string {
  return text
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, "''")
}

t.test('lib uses no global and no member that the oldest Node does not have', async t => {
  const modules = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.js'))
  for (const path of modules) {
    const code = codeOf(readFileSync(join(top, path), 'utf8'))
    for (const [kind, pattern] of Object.entries(laterGlobals)) {
      const found = pattern.exec(code)
      if (found !== null) t.fail(`${path}: ${found[0]} (${kind})`)
    }
  }
  const known = [
    'x = AbortSignal.any([a])',
    'list.toSorted()',
    'new WebSocket(url)',
    'import.meta.dirname',
    'server.closeAllConnections()'
  ]
  for (const code of known)
    t.ok(
      Object.values(laterGlobals).some(pattern => pattern.test(codeOf(code))),
      code
    )
  for (const code of ['// AbortSignal.any', "'AbortSignal.any'", 'isAscii?.(bytes)', 'AbortSignal.timeout(1)'])
    t.notOk(
      Object.values(laterGlobals).some(pattern => pattern.test(codeOf(code))),
      code
    )
})
