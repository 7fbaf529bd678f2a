import { closeSync, openSync, writeSync } from 'node:fs'

const paths = ['/', '/api/projects', '/static/app.js', '/favicon.ico', '/api/logs/dep_', '/img/logo.png']
const agents = [
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36',
  'curl/8.5.0',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'
]

/** Writes an access log of this many MiB, always the same. One line of 40,000 contains `upstream timed out`. */
export function writeAccessLog(path: string, mib: number): void {
  let state = 42
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return (state >> 8) % below
  }
  const two = (n: number): string => String(n).padStart(2, '0')
  const fd = openSync(path, 'w')
  for (let written = 0; written < mib * 1024 * 1024; ) {
    let text = ''
    for (let line = 0; line < 5000; line++) {
      const status = random(3000) === 0 ? [501, 503][random(2)] : [200, 200, 304, 404, 500][random(5)]
      const end =
        random(40_000) === 0 ? ' upstream timed out' : random(30_000) === 0 ? ` ${100 + random(900)}ms SLOW` : ''
      text +=
        `${random(256)}.${random(256)}.${random(256)}.${random(256)} - - [21/Nov/2026:${two(random(24))}:${two(random(60))}:${two(random(60))} +0000] ` +
        `"GET ${paths[random(6)]}?id=${random(1e6)} HTTP/1.1" ${status} ${random(50_000)} "-" "${agents[random(3)]}"${end}\n`
    }
    written += writeSync(fd, text)
  }
  closeSync(fd)
}
