"""Writes jinja_cases.json: what Python's jinja2 makes of each line, in the sandbox that Hugging Face uses for chat templates.

Needs jinja2 (3.1); run in this folder. A line that fails in Python belongs to ERR, one that renders to T.
"""
import json, jinja2, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.exceptions import *
def env():
    e=ImmutableSandboxedEnvironment(trim_blocks=True,lstrip_blocks=True,extensions=['jinja2.ext.loopcontrols'])
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    def raise_exception(m): raise TemplateError(m)
    e.filters['tojson']=tojson; e.globals['raise_exception']=raise_exception
    return e
E=env()
V={"s":"Héllo, wörld","n":7,"f":2.5,"t":True,"none":None,"l":[3,1,2],"w":["b","A","c"],"d":{"b":1,"a":[1,2],"items":"x"},
   "people":[{"name":"Ann","age":30,"tag":{"k":1}},{"name":"bob","age":25},{"name":"Cid","age":30}],"e":[],"ws":"  a b\tc \n"}
T=r'''
{{ s|length }} {{ s[1] }} {{ s[-2:] }} {{ s[::-1] }} {{ s[1:8:3] }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'heLLo wOrld'.capitalize() }} {{ s|title }} {{ s|capitalize }} {{ "a-b (c) d'e"|title }}
{{ n // 2 }} {{ -n // 2 }} {{ -n % 3 }} {{ n / 2 }} {{ n ** 2 }} {{ 2 ** -1 }} {{ n % 4 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1_000 }} {{ 2**3**2 }}
{{ 1e20 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1.0 }} {{ 123456789012345680.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ -0.0 }}
{{ [1, 'a', None, True, 1.5, {'k': ('x',)}] }} {{ (1,) }} {{ () }} {{ {} }} {{ "it's" }} {{ ["it's", 'a"b', "a\nb\t\\", "é\u200b\x00"] }}
{{ d }} {{ d.b }} {{ d['a'][1] }} {{ d['items'] }}
{{ d.missing }}|{{ d.missing is defined }}|{{ missing is defined }}|{{ missing }}|{{ missing|default('z') }}|{{ ''|default('z', true) }}|{{ ''|d('z') }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{{ loop.cycle('a','b') }} {% endfor %}
{% for x in e %}x{% else %}empty{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|dictsort(reverse=true) %}{{ k }}{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{{ d|list }}{{ d.keys()|list }}{{ d.values()|list }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% if n > 5 and not e %}a{% elif n %}b{% else %}c{% endif %}{{ 'y' if t else 'n' }}{{ 'y' if e }}|
{% macro m(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, 5, k=6) }}{{ m(b=1, a=0) }}{{ m() }}
{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('x') %}in {{ n }}{% endcall %}
{% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b) each(l) %}({{ a }},{{ b }}){% endcall %}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% set b %}a {{ n }} b{% endset %}{{ b }}{% set c | upper %}x{{ n }}y{% endset %}{{ c }}
{% filter upper|replace('A', 'o') %}banana {{ s }}{% endfilter %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% raw %}{{ not }} {% this %}{% endraw %}
{# comment {{ x }} #}a{#- b -#} c
a   {%- if t %}  b  {%- endif %}  c {{- n -}}  d
    {% if t %}
  x
    {% endif %}
y
    {%+ if t %}z{% endif +%}

{{ l|sort }}{{ l|sort(reverse=true) }}{{ w|sort }}{{ w|sort(case_sensitive=true) }}{{ people|sort(attribute='age')|map(attribute='name')|list }}
{{ l|join(', ') }}{{ people|join('/', attribute='name') }}{{ l|first }}{{ l|last }}{{ e|first }}{{ l|max }}{{ l|min }}{{ l|sum }}{{ people|sum(attribute='age') }}
{{ people|map(attribute='tag.k')|list }}{{ people|map(attribute='tag.k', default=0)|list }}{{ w|map('upper')|join }}{{ l|map('string')|list }}
{{ people|selectattr('age', 'equalto', 30)|map(attribute='name')|list }}{{ people|rejectattr('tag')|list|length }}{{ l|select('odd')|list }}{{ l|reject('gt', 1)|list }}{{ [0,1,'']|select|list }}
{{ [1,2,1,'a','A']|unique|list }}{{ l|reverse|list }}{{ 'abc'|reverse }}{{ [1,2,3,4,5]|batch(2, 0)|list }}
{% for k, g in people|groupby('age') %}{{ k }}:{{ g|map(attribute='name')|join(',') }};{% endfor %}
{{ ws|trim }}|{{ 'xxaxx'|trim('x') }}|{{ ws.strip() }}|{{ 'xay'.strip('xy') }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}
{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ws.split() }}{{ 'a b c'.split(None, 1) }}{{ 'a b c'.rsplit(' ', 1) }}{{ 'a b  c '.rsplit(None, 1) }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}
{{ 'abcabc'.replace('b', 'X') }}{{ 'abcabc'.replace('b', 'X', 1) }}{{ 'ab'.replace('', '-') }}{{ 'abc'|replace('b', '') }}
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}{{ 'abcb'.rfind('b') }}{{ 'abcb'.count('b') }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.index('b') }}{{ '-'.join(w) }}
{{ 'abc'.isalpha() }}{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ '7'.zfill(3) }}{{ '-7'.zfill(4) }}{{ 'a'.ljust(3, '.') }}{{ 'a'.rjust(3) }}{{ 'ab'.center(5, '*') }}{{ 'ab'|center(5) }}|
{{ '{} {1} {x}'.format if false else 'n' }}{{ '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('a', 2) }}{{ '{x:>4}|{y:<5.2f}|{z:^7}|{n:05d}|{n:,}|{h:x}|{{}}'.format(x='a', y=1.5, z='mid', n=1234, h=255) }}{{ '{!r}'.format('a') }}
{{ '%s is %d, %.2f%% %5s|%-5s|%05d' % ('x', 3, 1.5, 'r', 'l', 42) }}{{ '%s' % 'one' }}{{ '%(a)s' % {'a': 1} }}{{ '%s-%s'|format(1, 2) }}
{{ d|tojson }}{{ [1.0, none, true, 'é"\n', {'1': 2}]|tojson }}{{ 'é🙂'|tojson(ensure_ascii=true) }}
{{ {'a': [1, {'b': 2}], 'c': [], 'e': {}}|tojson(indent=2) }}{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}
{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent('> ', blank=true) }}
{{ '42'|int }}{{ '4.7'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ '0x1f'|int(0, 16) if false else '' }}{{ '1.5'|float }}{{ 'x'|float }}{{ 3.7|int }}{{ -3|abs }}{{ 2.5|round }}{{ 2.567|round(2) }}{{ 2.1|round(method='ceil') }}{{ 7|round }}
{{ '<a & "b">'|e }}{{ 'a b/c?'|urlencode }}{{ 'one two, three'|wordcount }}{{ 'hello big world'|truncate(9) }}{{ 'hello big world'|truncate(9, true, '', 0) }}{{ none|string }}{{ [1]|string }}
{{ 1 is number }}{{ true is number }}{{ 1.5 is float }}{{ 1 is integer }}{{ true is integer }}{{ true is boolean }}{{ 'a' is string }}{{ d is mapping }}{{ l is sequence }}{{ 'a' is sequence }}{{ d is iterable }}{{ none is none }}{{ n is odd }}{{ n is divisibleby 7 }}{{ n is even }}{{ n is eq 7 }}{{ n is in [7] }}{{ 'a' is lower }}{{ m is callable }}{{ t is true }}{{ n is not none }}{{ none is sameas none }}{{ missing is undefined }}
{{ 1 < 2 < 3 }}{{ 1 < 2 > 5 }}{{ 'a' in 'abc' }}{{ 'b' in d }}{{ 5 not in l }}{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' < 'b' }}{{ [1,2] < [1,3] }}{{ (1,2) == (1,2) }}{{ [1] == (1,) }}{{ none == false }}{{ {'a': 1} == {'a': 1.0} }}
{{ 'a' ~ 1 ~ none ~ true }}{{ 'a' 'b' }}{{ 'ab' * 3 }}{{ [1] * 2 }}{{ [1] + [2] }}{{ (1,) + (2,) }}{{ not e }}{{ e or 'x' }}{{ 0 and 1 }}{{ -n }}{{ +n }}{{ 1 if 0 else 2 if 0 else 3 }}
{{ '\x41\u00e9\n\'\\q' }}{{ "a
b" }}{{ 'tab\there' }}
{{ dict(a=1) }}{{ dict([('x', 1)]) }}{{ range(3)|list }}{{ range(1, 8, 3)|list }}{{ range(3, 0, -1)|list }}{{ d.get('b') }}{{ d.get('z') }}{{ d.get('z', 5) }}{{ l.index(1) }}{{ l.count(3) }}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% for (i, j) in [(1, 2)] %}{{ i }}{{ j }}{% endfor %}{{ l[1:] }}{{ l[:-1] }}{{ l[::2] }}{{ l[9] is defined }}{{ l[-1] }}
{{ ('<b>'|safe) + '<i>' }}{{ '<i>' + ('<b>'|safe) }}{{ ('<b>'|safe) ~ '<i>' }}
{{ missing.x is defined if false else 'ok' }}{{ missing|length }}{% for x in missing %}x{% endfor %}{{ missing == missing2 }}{{ missing|list }}{{ missing or 'u' }}
{% for x in [1] %}{% for y in [2] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}{{ people[0].name }}{{ people.0.name }}{{ (l|sort)[0] }}{{ d.a.1 }}
'''.strip('\n').split('\n')
# join lines that belong together
src=[]; 
i=0
while i<len(T):
    if T[i].startswith('    {% if t %}'): src.append('\n'.join(T[i:i+6])); i+=6+ (1 if T[i+6]=='' else 0); continue
    if T[i].startswith(r"{{ '\x41"): src.append(T[i]+'\n'+T[i+1]); i+=2; continue
    src.append(T[i]); i+=1
ERR=r'''{{ missing.x }}
{{ missing + 1 }}
{{ missing() }}
{{ d.missing.x }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ none + 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 < 'a' }}
{{ [1] < 1 }}
{{ none|length }}
{{ 5|length }}
{% for x in 5 %}{% endfor %}
{{ 'a' in none }}
{{ 1 in 'a' }}
{{ l.append(1) }}
{{ d.pop('a') }}
{{ d.update({}) }}
{{ ''.__class__ }}
{{ ''.__class__.__mro__ }}
{{ raise_exception('no') }}
{{ missing|tojson }}
{{ (l|map('string'))|tojson }}
{% set n.x = 1 %}
{{ 'x'.join([1]) }}
{{ 'a'.split('') }}
{{ range(10000000) }}
{{ d[[1]] is defined }}{{ {[1]: 2} }}
{{ 'abc'.nosuch() }}
{% set a, b = [1] %}
{{ n() }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(x=2) }}
{{ l|sort(attribute='x') }}{{ [1, 'a']|sort }}
{{ '%d' % 'x' }}
{{ '{}'.format() }}
{{ n|items }}
{{ -'a' }}
{{ [1,2]|nosuch }}
{{ 1 is nosuch }}
{% nosuch %}
{% if %}{% endif %}
{% if x %}
{% for x %}{% endfor %}
{{ 
{{ 'a }}
{{ a b }}
{{ (1 }}
{{ [1, }}
{% set x %}
{% endif %}
{% break %}
{# open
{% raw %} x
{{ a | }}
{{ a. }}
{% macro %}{% endmacro %}
{{ 1 if }}
{% set true = 1 %}
{% include 'x' %}
{{ {'a' 1} }}
{{ x ? }}
{{ l|join(', ', 1, 2, 3) }}'''.split('\n')
out={'variables':V,'renders':[], 'errors':[]}
for t in src:
    try: r=E.from_string(t).render(**V)
    except Exception as e: print('PYERR',repr(t),type(e).__name__,e); continue
    out['renders'].append({'template':t,'text':r})
for t in ERR:
    try: r=E.from_string(t).render(**V); print('NOERR',repr(t),repr(r))
    except Exception as e: out['errors'].append({'template':t,'python':type(e).__name__+': '+str(e)[:100]})
json.dump(out,open('jinja_cases.json','w'),ensure_ascii=False,indent=1)
print(len(out['renders']),len(out['errors']))
