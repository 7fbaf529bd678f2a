import { testScreens } from './screen-table.js'

/* The effect of each control function on a screen of 8 columns and 4 rows. */

const e = '\x1b['
const full = 'aaa\r\nbbb\r\nccc\r\nddd'

testScreens([
  // Text and lines
  { what: 'wraps text into the next line', input: 'abcdefghij', expected: ['abcdefgh', 'ij'], cursor: [2, 1] },
  {
    what: 'does not wrap a full line before the next character',
    input: 'abcdefgh',
    expected: ['abcdefgh'],
    cursor: [7, 0]
  },
  { what: 'does not wrap at a return', input: 'abcdefgh\rX', expected: ['Xbcdefgh'] },
  { what: 'moves one line for a line feed after a full line', input: 'abcdefgh\r\nX', expected: ['abcdefgh', 'X'] },
  { what: 'a backspace from a full line leaves the last column', input: 'abcdefgh\bX', expected: ['abcdefXh'] },
  { what: 'a line feed keeps the column', input: 'ab\ncd', expected: ['ab', '  cd'] },
  { what: 'VT and FF are line feeds', input: 'a\x0bb\x0cc', expected: ['a', ' b', '  c'] },
  { what: 'NUL and DEL are ignored', input: 'a\x00\x7fb', expected: ['ab'] },
  { what: 'LNM: a line feed is a new line', input: `${e}20hab\ncd${e}20l\nef`, expected: ['ab', 'cd', '  ef'] },
  {
    what: 'lines that scroll off are kept in the history',
    input: 'a\r\nb\r\nc\r\nd\r\ne\r\nf',
    expected: ['c', 'd', 'e', 'f'],
    history: ['a', 'b']
  },
  {
    what: 'DECAWM off: the last column is overwritten',
    input: `${e}?7labcdefghij`,
    expected: ['abcdefgj'],
    cursor: [7, 0]
  },
  { what: 'DECAWM on again', input: `${e}?7labcdefghi${e}?7hjk`, expected: ['abcdefgj', 'k'] },

  // Wide and combining characters
  { what: 'a wide character takes two columns', input: '部a', expected: ['部a'], cursor: [3, 0] },
  { what: 'a wide character that does not fit wraps', input: 'abcdefg部', expected: ['abcdefg', '部'], cursor: [2, 1] },
  {
    what: 'a wide character that does not fit is dropped without DECAWM',
    input: `${e}?7labcdefg部`,
    expected: ['abcdefg'],
    cursor: [7, 0]
  },
  {
    what: 'overwriting the right half of a wide character clears the left half',
    input: `部x${e}2Ga`,
    expected: [' ax']
  },
  {
    what: 'overwriting the left half of a wide character clears the right half',
    input: `部x${e}1Ga`,
    expected: ['a x']
  },
  { what: 'a wide character over two halves clears their other halves', input: `部署${e}2G完`, expected: [' 完'] },
  {
    what: 'an emoji is wide, and its surrogate pair is one character',
    input: '🚀x',
    expected: ['🚀x'],
    cursor: [3, 0]
  },
  {
    what: 'a combining character joins the character before it',
    input: 'e\u0301x',
    expected: ['e\u0301x'],
    cursor: [2, 0]
  },
  { what: 'several combining characters join', input: 'o\u0302\u0301x', expected: ['o\u0302\u0301x'] },
  { what: 'a combining character joins a wide character', input: '部\u0301x', expected: ['部\u0301x'], cursor: [3, 0] },
  {
    what: 'a combining character joins the character before the last column',
    input: 'bcdefge\u0301',
    expected: ['bcdefge\u0301']
  },
  {
    what: 'a combining character joins the last column while a wrap is pending',
    input: 'abcdefgh\u0301i',
    expected: ['abcdefgh\u0301', 'i']
  },
  { what: 'a combining character at the beginning is dropped', input: '\u0301x', expected: ['x'] },
  {
    what: 'a joiner joins, and the next character has its own cells',
    input: '👩\u200d🚀',
    expected: ['👩\u200d🚀'],
    cursor: [4, 0]
  },

  // Moving the cursor
  { what: 'CUP', input: `${e}2;3Hx`, expected: ['', '  x'] },
  { what: 'CUP without parameters is home', input: `${full}${e}Hx`, expected: ['xaa', 'bbb', 'ccc', 'ddd'] },
  { what: 'CUP stays on the screen', input: `${e}99;99Hx`, expected: ['', '', '', '       x'] },
  { what: 'HVP is the same as CUP', input: `${e}2;3fx`, expected: ['', '  x'] },
  {
    what: 'CUU, CUD, CUF, CUB',
    input: `${e}3;3H${e}Aa${e}2Bb${e}Cc${e}4Dd`,
    expected: ['', '  a', '', '  db c'],
    cursor: [3, 3]
  },
  { what: 'CUU stops at the top, CUB at the left', input: `${e}9A${e}9Dx`, expected: ['x'] },
  { what: 'CUU stops at the top margin', input: `${e}2;3r${e}3H${e}9Ax`, expected: ['', 'x'] },
  { what: 'CUD stops at the bottom margin', input: `${e}2;3r${e}2H${e}9Bx`, expected: ['', '', 'x'] },
  { what: 'CUD below the region goes to the bottom', input: `${e}1;2r${e}3H${e}9Bx`, expected: ['', '', '', 'x'] },
  { what: 'CNL and CPL', input: `abc${e}2Ed${e}Fe`, expected: ['abc', 'e', 'd'] },
  { what: 'CHA and HPA', input: `abc${e}2Gx${e}5\`y`, expected: ['axc y'] },
  { what: 'HPR', input: `a${e}2ab`, expected: ['a  b'] },
  { what: 'VPA and VPR', input: `a${e}3db${e}ec`, expected: ['a', '', ' b', '  c'] },
  { what: 'moving the cursor cancels a pending wrap', input: `abcdefgh${e}Cx`, expected: ['abcdefgx'] },
  { what: 'IND, NEL, RI', input: 'a\x1bDb\x1bEc\x1bMd', expected: ['a', ' d', 'c'] },
  { what: 'C1 controls are the same as their escape sequences', input: 'a\x84b\x85c', expected: ['a', ' b', 'c'] },
  { what: 'RI at the top scrolls down', input: `${full}${e}H\x1bMx`, expected: ['x', 'aaa', 'bbb', 'ccc'] },

  // Tabs
  { what: 'HT goes to the next stop', input: 'a\tb', columns: 20, expected: ['a       b'] },
  { what: 'HT stops at the last column', input: 'a\t\t\tb', expected: ['a      b'] },
  { what: 'HTS sets a stop', input: `${e}4G\x1bH\r\tx`, expected: ['   x'] },
  {
    what: 'TBC clears one stop, or all',
    input: `${e}9G${e}g\r\tx${e}3g\r\ty`,
    columns: 24,
    rows: 2,
    expected: ['                x      y']
  },
  { what: 'CHT and CBT', input: `${e}2Ix${e}2Zy`, columns: 24, expected: ['        y       x'] },

  // Erasing
  { what: 'EL to the right', input: `abcdef${e}3G${e}K`, expected: ['ab'] },
  { what: 'EL to the left, the cursor included', input: `abcdef${e}3G${e}1K`, expected: ['   def'] },
  { what: 'EL clears the whole line', input: `abcdef${e}3G${e}2K`, expected: [''], cursor: [2, 0] },
  { what: 'EL keeps a full line while a wrap is pending', input: `abcdefgh${e}Ki`, expected: ['abcdefgh', 'i'] },
  { what: 'ED below', input: `${full}${e}2;2H${e}J`, expected: ['aaa', 'b'] },
  { what: 'ED above', input: `${full}${e}2;2H${e}1J`, expected: ['', '  b', 'ccc', 'ddd'] },
  { what: 'ED of the whole screen does not move the cursor', input: `${full}${e}2J`, expected: [], cursor: [3, 3] },
  {
    what: 'ED 3 clears the history',
    input: `1\r\n2\r\n${full}${e}3J`,
    expected: ['aaa', 'bbb', 'ccc', 'ddd'],
    history: []
  },
  { what: 'ECH', input: `abcdef${e}2G${e}3X`, expected: ['a   ef'] },
  { what: 'DCH', input: `abcdef${e}2G${e}3P`, expected: ['aef'] },
  { what: 'ICH', input: `abcdefgh${e}2G${e}3@`, expected: ['a   bcde'] },
  { what: 'ICH, DCH, ECH cut wide characters', input: `部署完成${e}2G${e}P`, expected: [' 署完成'] },
  { what: 'IRM', input: `abc${e}2G${e}4hxy${e}4lz`, expected: ['axyzc'] },
  { what: 'IRM drops characters at the right', input: `abcdefgh${e}G${e}4hX`, expected: ['Xabcdefg'] },
  { what: 'REP', input: `ab${e}3b`, expected: ['abbbb'] },
  { what: 'REP wraps', input: `a${e}9b`, expected: ['aaaaaaaa', 'aa'] },
  { what: 'DECALN', input: '\x1b#8', columns: 3, rows: 2, expected: ['EEE', 'EEE'], cursor: [0, 0] },

  // Lines and regions
  { what: 'IL', input: `${full}${e}2;2H${e}L`, expected: ['aaa', '', 'bbb', 'ccc'], cursor: [0, 1] },
  { what: 'DL', input: `${full}${e}2;2H${e}2M`, expected: ['aaa', 'ddd'], cursor: [0, 1] },
  { what: 'IL and DL stay in the region', input: `${full}${e}2;3r${e}2H${e}9L`, expected: ['aaa', '', '', 'ddd'] },
  {
    what: 'IL outside of the region does nothing',
    input: `${full}${e}2;3r${e}1H${e}L`,
    expected: ['aaa', 'bbb', 'ccc', 'ddd']
  },
  { what: 'SU', input: `${full}${e}2S`, expected: ['ccc', 'ddd'], history: ['aaa', 'bbb'] },
  { what: 'SD', input: `${full}${e}2T`, expected: ['', '', 'aaa', 'bbb'] },
  { what: 'SD in its other form', input: `${full}${e}^`, expected: ['', 'aaa', 'bbb', 'ccc'] },
  {
    what: 'a region scrolls by itself',
    input: `${full}${e}2;3r${e}3H\nx`,
    expected: ['aaa', 'ccc', 'x', 'ddd'],
    history: []
  },
  {
    what: 'a region at the top keeps lines that leave it',
    input: `${full}${e}1;2r${e}2H\nx`,
    expected: ['bbb', 'x', 'ccc', 'ddd'],
    history: ['aaa']
  },
  {
    what: 'nothing scrolls below a region',
    input: `${full}${e}1;2r${e}4H\n\nx`,
    expected: ['aaa', 'bbb', 'ccc', 'xdd']
  },
  {
    what: 'DECSTBM moves the cursor home and refuses one line',
    input: `${full}${e}3;3rx`,
    expected: ['aaa', 'bbb', 'ccc', 'dddx']
  },
  {
    what: 'DECOM: rows are relative to the region and stay in it',
    input: `${e}2;3r${e}?6hx${e}2;2Hy${e}9;1Hz`,
    expected: ['', 'x', 'zy']
  },

  // Saving the cursor, switching screens, resetting
  { what: 'DECSC and DECRC', input: 'ab\x1b7\r\ncd\x1b8x', expected: ['abx', 'cd'] },
  { what: 'DECRC without a DECSC goes home', input: 'ab\x1b8x', expected: ['xb'] },
  { what: 'SCOSC and SCORC', input: `ab${e}s\r\ncd${e}ux`, expected: ['abx', 'cd'] },
  { what: 'DECRC restores a pending wrap', input: 'abcdefgh\x1b7\r\x1b8x', expected: ['abcdefgh', 'x'] },
  {
    what: '1049 switches the screen and restores the cursor',
    input: `ab${e}?1049h${e}Hxyz${e}?1049lc`,
    expected: ['abc']
  },
  {
    what: 'the alternate screen is empty each time',
    input: `${e}?1049hx${e}?1049l${e}?1049h`,
    expected: [],
    cursor: [0, 0]
  },
  {
    what: 'the alternate screen has no history',
    input: `${e}?1049h1\r\n2\r\n3\r\n4\r\n5${e}?1049l`,
    expected: [],
    history: []
  },
  {
    what: '47 and 1047 do not move the cursor',
    input: `ab${e}?47hx${e}?47ly${e}?1047hz${e}?1047l`,
    expected: ['ab y'],
    cursor: [5, 0]
  },
  { what: '1048 saves and restores the cursor', input: `ab${e}?1048h\r\ncd${e}?1048lx`, expected: ['abx', 'cd'] },
  { what: 'DECSTR', input: `${full}${e}2;3r${e}4h${e}?6h${e}!p${e}Hx`, expected: ['xaa', 'bbb', 'ccc', 'ddd'] },
  { what: 'RIS', input: `${full}${e}2;3r${e}?7l\x1bcx`, expected: ['x'], cursor: [1, 0] },

  // Character sets
  { what: 'line drawing in G0', input: '\x1b(0lqk\x1b(Bx', expected: ['┌─┐x'] },
  { what: 'line drawing in G1, by SO and SI', input: '\x1b)0a\x0elqk\x0fb', expected: ['a┌─┐b'] },
  { what: 'DECSC saves the character sets', input: '\x1b(0\x1b7\x1b(Bq\x1b8q', expected: ['─'] },

  // Invalid and ignored sequences
  { what: 'CAN ends a sequence', input: `a${e}3\x18Cb`, expected: ['aCb'] },
  { what: 'ESC begins a new sequence', input: `a${e}3${e}Cb`, expected: ['a b'] },
  { what: 'controls act within a sequence', input: `ab${e}\r2Cx`, expected: ['abx'] },
  { what: 'unknown functions do nothing', input: `a${e}5yb${e}?99hc${e}>4;2md${e}=ue${e}1 !pf`, expected: ['abcdef'] },
  {
    what: 'strings are not shown',
    input: 'a\x1b]2;title\x07b\x1bPq#0\x1b\\c\x1b_apc\x1b\\d\x1b^pm\x1b\\e\x1bXsos\x1b\\f',
    expected: ['abcdef']
  },
  { what: 'OSC 8 is ignored', input: '\x1b]8;;https://example.test\x1b\\link\x1b]8;;\x1b\\', expected: ['link'] },
  { what: 'parameters after the 32nd are ignored', input: `${e}${'1;'.repeat(50)}1mab`, expected: ['ab'] },
  { what: 'a huge parameter is limited', input: `${e}99999999999999999999Cx`, expected: ['       x'] },

  // Replies
  { what: 'DSR 5 and 6', input: `${e}5n${e}2;3H${e}6n`, expected: [], replies: ['\x1b[0n', '\x1b[2;3R'] },
  {
    what: 'DSR 6 in origin mode',
    input: `${e}2;3r${e}?6h${e}6n${e}?6n`,
    expected: [],
    replies: ['\x1b[1;1R', '\x1b[?1;1R']
  },
  { what: 'DA1 and DA2', input: `${e}c${e}>c`, expected: [], replies: ['\x1b[?64;1;22c', '\x1b[>41;354;0c'] },
  {
    what: 'DECRQM',
    input: `${e}?25$p${e}?2026$p${e}?9999$p${e}4$p`,
    expected: [],
    replies: ['\x1b[?25;1$y', '\x1b[?2026;2$y', '\x1b[?9999;0$y', '\x1b[4;2$y']
  },
  {
    what: 'DECRQSS',
    input: `${e}1;31m\x1bP$qm\x1b\\\x1bP$qr\x1b\\\x1bP$qx\x1b\\`,
    expected: [],
    replies: ['\x1bP1$r0;1;31m\x1b\\', '\x1bP1$r1;4r\x1b\\', '\x1bP0$r\x1b\\']
  },
  {
    what: 'XTVERSION, XTWINOPS 18',
    input: `${e}>q${e}18t`,
    expected: [],
    replies: ['\x1bP>|svc\x1b\\', '\x1b[8;4;8t']
  },
  { what: 'XTGETTCAP is refused', input: '\x1bP+q544e\x1b\\', expected: [], replies: ['\x1bP0+r\x1b\\'] },
  { what: 'the clipboard is refused', input: '\x1b]52;c;?\x07', expected: [], replies: [] }
])
