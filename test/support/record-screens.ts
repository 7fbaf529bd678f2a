/*
 * Records what real programs write to a terminal, for test/www/terminal/programs.test.ts:
 *
 *   node dist/test/support/record-screens.js [program…]
 *
 * Needs Linux, root, tmux and the programs. They run in a tmux, as a terminal that answers them, and in namespaces of
 * their own, so that nothing of the machine is seen. Leaves `<program>.in`, everything that the program wrote, and
 * `<program>.text`: tmux's own screen after each number of bytes, as it is and revealed (tmux.ts).
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { revealing, startTmux, type Tmux } from './tmux.js'

const fixtures = fileURLToPath(new URL('../../../test/fixtures/screens/', import.meta.url))
const size = { columns: 80, rows: 24 }
/** A program that prints nothing for this time waits for a key. */
const settledMs = 600

/** The command, and its keys by their names in tmux. A screen is recorded after each entry. */
const programs: Record<string, { command: string; keys: string[][] }> = {
  vim: {
    command: 'vim -u NONE -N -c "syntax on" -c "set number hlsearch ruler showcmd mouse=a" server.js',
    keys: [
      ['G'],
      ['C-b'],
      ['/', 'const', 'Enter'],
      ['n', 'V', 'j', 'j', 'j'],
      ['Escape', 'o', '部署 é ü 完成 🚀 done', 'Escape'],
      [':vsplit notes.md', 'Enter'],
      ['G', 'o', 'a line that is long enough to be wrapped by the editor at its right edge, twice', 'Escape'],
      ['C-w', 'w', 'g', 'g', 'd', 'd', 'd', 'd', 'u'],
      [':set list cursorline', 'Enter', 'C-e', 'C-e', 'C-y'],
      ['5', 'j', 'C-v', '4', 'j', '6', 'l'],
      ['Escape', ':help', 'Enter'],
      ['C-d', 'C-d', 'C-u'],
      [':qa!', 'Enter']
    ]
  },
  less: {
    command: 'less -R colors.log',
    keys: [
      ['Space'],
      ['Space', 'Space'],
      ['b'],
      ['j', 'j', 'j', 'k'],
      ['/', 'error', 'Enter'],
      ['n', 'n'],
      ['-', 'N', 'Enter'],
      ['G'],
      ['-', 'S', 'Enter', 'Right'],
      ['h'],
      ['q'],
      ['g'],
      ['q']
    ]
  },
  htop: {
    command: 'htop -d 100',
    keys: [
      ['F5'],
      ['Down', 'Down'],
      ['F6'],
      ['Escape'],
      ['F2'],
      ['Down', 'Right', 'Down'],
      ['Escape', 'F1'],
      ['q'],
      ['q']
    ]
  },
  mc: {
    command: 'mc -u',
    keys: [
      ['Down', 'Down'],
      ['F9'],
      ['Right', 'Down', 'Down'],
      ['Escape', 'Escape'],
      ['Tab', 'End'],
      ['Home', 'Down', 'Down', 'Down', 'F3'],
      ['Down', 'Down', 'F4'],
      ['F10'],
      ['F5'],
      ['Escape', 'Escape'],
      ['F1'],
      ['F10'],
      ['F10', 'Enter']
    ]
  },
  top: { command: 'top -d 100', keys: [['z'], ['x'], ['1'], ['c', 'V'], ['?'], ['q'], ['f'], ['q'], ['q']] },
  tmux: {
    command: 'tmux -f /dev/null -S /srv/inner',
    keys: [
      ['ls --color=always -l', 'Enter'],
      ['C-b', '%'],
      ['seq 60', 'Enter'],
      ['C-b', '"'],
      ['cat colors.log', 'Enter'],
      ['C-b', '[', 'PageUp'],
      ['q', 'C-b', 't'],
      ['q', 'C-b', 'o', 'vim -u NONE server.js', 'Enter'],
      ['C-b', 'z'],
      [':q', 'Enter', 'C-b', 'w'],
      ['q', 'C-b', ':', 'kill-server', 'Enter']
    ]
  }
}

/** Creates the files that the programs open, in a private directory. */
const stage = `
hostname demo
mount -t tmpfs none /srv
mount -t tmpfs none /tmp
mkdir -p /srv/site/assets /srv/home && cd /srv/site
export HOME=/srv/home TERM=xterm-256color LANG=C.UTF-8 SHELL=/bin/sh PS1='$ ' TZ=UTC COLUMNS= LINES= EDITOR=vi MC_SKIN=default
unset COLUMNS LINES TMUX TMUX_PANE
i=0; while [ $i -lt 60 ]; do
  i=$((i+1))
  printf 'export function handler%d(request) {\\n  const id = %d // TODO\\n  return \`item \${id}\` + "text"\\n}\\n\\n' $i $i >> server.js
  printf '\\033[2m12:00:%02d\\033[0m \\033[3%dminfo\\033[0m request %d \\033[1;38;5;%dm/api/items\\033[0m \\033[48;2;20;40;%dm 200 \\033[m\\n' $i $((i%8)) $i $((i*4)) $((i*4)) >> colors.log
  [ $((i%7)) -ne 0 ] || printf '\\033[41;97;1m error \\033[0m 连接失败 \\033[4munderlined\\033[24m \\033[7minverse\\033[27m %s\\n' "a line that is longer than the screen is wide, and therefore has to be wrapped" >> colors.log
done
printf '# Notes\\n\\n- one\\n- two\\n' > notes.md
touch -d 2026-03-01T12:00:00 server.js colors.log notes.md assets
`

async function settle(file: string): Promise<number> {
  let bytes = -1
  for (;;) {
    const now = statSync(file, { throwIfNoEntry: false })?.size ?? 0
    if (now === bytes && now > 0) return now
    bytes = now
    await pause(settledMs)
  }
}

async function record(tmux: Tmux, name: string, directory: string): Promise<void> {
  const { command, keys } = programs[name] as { command: string; keys: string[][] }
  const file = join(directory, `${name}.in`)
  const script = join(directory, `${name}.sh`)
  writeFileSync(script, `${stage}\nexec ${command}\n`)
  const pane = 'screens:99'
  await tmux.command(
    'new-window',
    '-d',
    '-t',
    pane,
    `stty -echo; read go; stty echo; exec unshare -p -f -u -m --mount-proc sh ${script}`
  )
  await tmux.command('pipe-pane', '-O', '-t', pane, `cat > ${file}`)
  await tmux.command('send-keys', '-t', pane, 'Enter')
  const offsets = [await settle(file)]
  for (const group of keys) {
    for (const key of group) await tmux.command('send-keys', '-t', pane, key)
    offsets.push(await settle(file))
  }
  await tmux.command('kill-window', '-t', pane)

  const bytes = readFileSync(file)
  let text = ''
  for (const offset of offsets) {
    const { text: plain, cursor } = await tmux.screenOf(bytes.subarray(0, offset))
    const { text: revealed } = await tmux.screenOf(Buffer.concat([bytes.subarray(0, offset), revealing(size)]))
    text += `=== ${offset} bytes, cursor ${cursor.x} ${cursor.y}\n${plain}=== revealed\n${revealed}`
  }
  writeFileSync(join(fixtures, `${name}.in`), bytes)
  writeFileSync(join(fixtures, `${name}.text`), text)
  console.log(`${name}: ${bytes.length} bytes, ${offsets.length} screens`)
}

const directory = mkdtempSync(join(tmpdir(), 'screens-'))
const tmux = await startTmux(size)
try {
  const names = process.argv.slice(2)
  for (const name of names.length > 0 ? names : Object.keys(programs)) await record(tmux, name, directory)
} finally {
  await tmux.close()
  rmSync(directory, { recursive: true, force: true })
}
